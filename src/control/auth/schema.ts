import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  Acknowledgement,
  bool,
  dateTime,
  displayName,
  list,
  maybe,
  nullable,
  oneOf,
  resource,
  text,
  uuid,
} from '../http/types.ts'

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

const email = (options = {}) => text({ minLength: 3, maxLength: 254, format: 'email', ...options })
const personName = () => text({ maxLength: 100 })
/** Lengths are checked by the rules of the feature, which also know the list of common passwords. */
const password = () => text({ maxLength: 1024 })
const code = (options = {}) => text({ minLength: 1, maxLength: 64, ...options })

const open = { tag: 'Authentication', auth: 'none', scope: 'write', project: 'none' } as const
const own = { tag: 'Account', auth: 'bearer', project: 'none' } as const

export const authOperations = operations({
  getCaptcha: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/auth/captcha',
    summary: 'A captcha for one registration, good for five minutes',
    ...open,
    scope: 'read',
    query: Type.Object({
      format: Type.Optional(
        oneOf(['image', 'text'], {
          default: 'image',
          description: '`text`: a question in words instead of a picture.',
        }),
      ),
    }),
    answer: Captcha,
  },
  register: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/register',
    summary: 'Creates an account and its default project',
    ...open,
    body: resource('RegisterRequest', {
      captcha_answer: text({ maxLength: 64 }),
      captcha_id: text({ maxLength: 64 }),
      email: email(),
      password: password(),
      first_name: maybe(personName()),
      last_name: maybe(personName()),
    }),
    answer: User,
  },
  login: {
    secretAnswer: true,
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/login',
    summary: 'Starts a session; with two-factor authentication, send `code` too',
    ...open,
    body: resource('LoginRequest', {
      email: text({ maxLength: 254 }),
      password: password(),
      code: maybe(code({ description: 'Six digits of the authenticator, or a recovery code.' })),
    }),
    answer: AuthResponse,
  },
  refreshSession: {
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/refresh',
    summary: 'New access token and new refresh token for an unused refresh token',
    ...open,
    body: RefreshRequest,
    answer: RefreshResponse,
  },
  logout: {
    method: 'POST',
    path: '/v1/auth/logout',
    summary: 'Revokes a refresh token and its session',
    ...open,
    body: RefreshRequest,
    answer: Acknowledgement,
  },
  getMe: {
    method: 'GET',
    path: '/v1/auth/me',
    summary: 'The account that calls',
    ...own,
    scope: 'read',
    answer: User,
  },
  updateMe: {
    method: 'PUT',
    path: '/v1/auth/me',
    summary: 'Changes the profile; what is absent stays',
    ...own,
    scope: 'admin',
    body: resource('UpdateMeRequest', {
      email_notifications: maybe(bool()),
      first_name: maybe(personName()),
      last_name: maybe(personName()),
      marketing_emails: maybe(bool()),
    }),
    bodyRequired: true,
    answer: User,
  },
  deleteMe: {
    method: 'DELETE',
    path: '/v1/auth/me',
    summary: 'Deletes the account and everything only it owns',
    ...own,
    scope: 'admin',
    answer: Acknowledgement,
  },
  changePassword: {
    method: 'POST',
    path: '/v1/auth/password',
    summary: 'Changes the password and ends every session',
    ...own,
    scope: 'admin',
    body: resource('ChangePasswordRequest', { current_password: password(), new_password: password() }),
    answer: Acknowledgement,
  },
  setupTotp: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/auth/2fa/setup',
    summary: 'A new secret for an authenticator; not in force before it is verified',
    ...own,
    scope: 'admin',
    answer: TotpSetup,
  },
  setupTotpByPost: {
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/2fa/setup',
    summary: 'The same as GET',
    ...own,
    scope: 'admin',
    answer: TotpSetup,
    addition: true,
  },
  verifyTotp: {
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/2fa/verify',
    summary: 'Switches two-factor authentication on with a first code',
    ...own,
    scope: 'admin',
    body: resource('VerifyTotpRequest', { code: code() }),
    answer: TotpVerified,
  },
  disableTotp: {
    method: 'POST',
    path: '/v1/auth/2fa/disable',
    summary: 'Switches two-factor authentication off',
    ...own,
    scope: 'admin',
    body: resource('DisableTotpRequest', {
      password: maybe(password()),
      code: maybe(code({ description: 'A code of the authenticator, or a recovery code.' })),
    }),
    answer: Acknowledgement,
  },
  listTokens: {
    method: 'GET',
    path: '/v1/auth/tokens',
    summary: 'Personal access tokens of the account',
    ...own,
    scope: 'read',
    answer: list(PersonalAccessToken),
  },
  createToken: {
    throttle: 'create',
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/tokens',
    summary: 'Creates a personal access token; the answer is the only time it is shown',
    ...own,
    scope: 'admin',
    body: resource('CreateTokenRequest', {
      name: displayName(),
      project: maybe(text({ maxLength: 100, description: 'Slug or id of the only project the token may act in.' })),
      scopes: maybe(Scopes, { description: 'Default: everything.' }),
      expires_at: maybe(dateTime(), { description: 'Default: never.' }),
    }),
    answer: CreatedToken,
  },
  revokeToken: {
    method: 'DELETE',
    path: '/v1/auth/tokens/{token_id}',
    summary: 'Revokes a personal access token at once',
    ...own,
    scope: 'admin',
    params: Type.Object({ token_id: text() }),
    answer: Acknowledgement,
  },
  listSessions: {
    method: 'GET',
    path: '/v1/auth/sessions',
    summary: 'Where the account is signed in, newest first',
    ...own,
    scope: 'read',
    answer: list(Session),
    addition: true,
  },
  revokeSession: {
    method: 'DELETE',
    path: '/v1/auth/sessions/{session_id}',
    summary: 'Signs one session out at once',
    ...own,
    scope: 'admin',
    params: Type.Object({ session_id: uuid() }),
    answer: Acknowledgement,
    addition: true,
  },
})
