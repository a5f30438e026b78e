/** What the operations of identity answer and take, as schemas. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, list, maybe, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'

export const User = resource('User', {
  id: text(),
  email: text(),
  first_name: nullable(text()),
  last_name: nullable(text()),
  avatar_url: nullable(text()),
  email_notifications: bool(),
  marketing_emails: bool(),
  role: oneOf(['Admin', 'User'], { description: '`Admin` may operate the installation.' }),
  totp_enabled: bool(),
  email_verified: Type.Optional(bool({ description: 'A link that was mailed to the address was opened.' })),
  vpc_ipv6_prefix: nullable(text({ description: 'IPv6 prefix of the private network of the default project.' })),
})
export type User = Static<typeof User>

export const AuthResponse = resource('AuthResponse', {
  user: User,
  requires_2fa: bool({ description: 'True when the second factor is still missing; then there are no tokens.' }),
  token: maybe(text({ description: 'Session JWT.' })),
  refresh_token: maybe(text({ description: '`svc_rt_<secret>`; good for one refresh.' })),
})
export type AuthResponse = Static<typeof AuthResponse>

export const Captcha = resource('Captcha', {
  captcha_id: text(),
  captcha_image: text({
    description: 'Data URL of the picture to read; with `format=text`, of the question as plain text.',
  }),
  captcha_text: Type.Optional(text({ description: 'The question in words, for those who cannot see a picture.' })),
  captcha_work: Type.Optional(
    resource(
      'CaptchaWork',
      { iterations: uint32(), bits: uint32() },
      {
        description:
          'Asked for besides the answer in words: a `captcha_proof` such that PBKDF2-HMAC-SHA-256 of `<captcha_id>:<captcha_proof>` with the salt `mote-captcha` and so many iterations begins with so many zero bits.',
      },
    ),
  ),
})
export type Captcha = Static<typeof Captcha>

export const Scopes = list(oneOf(['read', 'write', 'deploy', 'admin']), {
  minItems: 1,
  maxItems: 4,
  uniqueItems: true,
  description: 'What the token may do. `admin` includes `write`, `write` includes `deploy`, `deploy` includes `read`.',
})

export const PersonalAccessToken = resource('PersonalAccessToken', {
  id: uuid(),
  user_id: uuid(),
  name: text(),
  token_last_four: text(),
  created_at: dateTime(),
  last_used_at: nullable(dateTime()),
  scopes: Type.Optional(Scopes),
  project: maybe(text({ description: 'Slug of the only project it may act in; null for all of the user.' })),
  expires_at: maybe(dateTime()),
})
export type PersonalAccessToken = Static<typeof PersonalAccessToken>

export const CreatedToken = resource('CreatedToken', {
  id: uuid(),
  name: text(),
  token: text({ description: '`svc_pat_<secret>`. Shown this once.' }),
  token_last_four: text(),
  created_at: dateTime(),
  scopes: Type.Optional(Scopes),
  project: maybe(text()),
  expires_at: maybe(dateTime()),
})
export type CreatedToken = Static<typeof CreatedToken>

export const RefreshRequest = resource('RefreshRequest', { refresh_token: text({ maxLength: 512 }) })
export const RefreshResponse = resource('RefreshResponse', { token: text(), refresh_token: text() })
export type RefreshResponse = Static<typeof RefreshResponse>

export const TotpSetup = resource('TotpSetup', {
  secret: text({ description: 'Base32, without padding.' }),
  otpauth_url: text(),
  qr_code: text({ description: 'Data URL of a QR code of `otpauth_url`.' }),
})
export type TotpSetup = Static<typeof TotpSetup>

export const TotpVerified = resource('TotpVerified', {
  totp_enabled: bool(),
  recovery_codes: list(text(), { description: 'Ten one-time codes, shown this once.' }),
})
export type TotpVerified = Static<typeof TotpVerified>

export const Session = resource('Session', {
  id: uuid(),
  ip_address: nullable(text()),
  user_agent: nullable(text()),
  created_at: dateTime({ description: 'When it was signed in.' }),
  current: bool({ description: 'Whether it is the one that asks.' }),
})
export type Session = Static<typeof Session>
