/** Schemas of the request and response bodies of identity operations. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, list, maybe, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'

export const User = resource(
  'User',
  {
    id: text({
      description: 'UUID of the account. Other resources refer to it as `user_id`.',
      examples: ['0197d2a4-61c3-7a90-9e1b-52f0c7d8e413'],
    }),
    email: text({
      description: 'E-mail address to sign in with, in lower case. Notifications are mailed to it.',
      examples: ['ada@example.com'],
    }),
    first_name: nullable(text({ description: 'Given name; null if never set.', examples: ['Ada'] })),
    last_name: nullable(text({ description: 'Family name; null if never set.', examples: ['Example'] })),
    avatar_url: nullable(
      text({
        description: 'HTTPS URL of the profile picture; null if there is none.',
        examples: ['https://example.com/ada.png'],
      }),
    ),
    email_notifications: bool({
      description:
        'Whether important notifications, such as failed deployments, are also sent by e-mail. Security notifications always are.',
    }),
    marketing_emails: bool({
      description: 'Whether product announcements are also sent by e-mail.',
      examples: [false],
    }),
    role: oneOf(['Admin', 'User'], {
      description: 'Role in the installation: an `Admin` may operate it. Independent of the roles in projects.',
      examples: ['User'],
    }),
    totp_enabled: bool({
      description: 'Whether two-factor authentication is on, so that signing in requires a code.',
      examples: [false],
    }),
    email_verified: Type.Optional(
      bool({
        description:
          'Whether the e-mail address is verified. Opening a link that was mailed to the address verifies it.',
      }),
    ),
    vpc_ipv6_prefix: nullable(
      text({
        description:
          "IPv6 prefix of the default project's private network; null if the account has no default project.",
        examples: ['fd12:3456:789a:1::/64'],
      }),
    ),
  },
  { description: 'An account, as its owner sees it.' },
)
export type User = Static<typeof User>

export const AuthResponse = resource(
  'AuthResponse',
  {
    user: User,
    requires_2fa: bool({
      description:
        'True if the account has two-factor authentication and the request had no `code`: repeat the request with it. `token` and `refresh_token` are null then.',
      examples: [false],
    }),
    token: maybe(
      text({
        description:
          'Session JWT for the `Authorization: Bearer` header, valid for 24 hours unless configured otherwise.',
        examples: ['eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl'],
      }),
    ),
    refresh_token: maybe(
      text({
        description: 'Token that `POST /v1/auth/refresh` exchanges once for new tokens.',
        examples: ['svc_rt_Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
      }),
    ),
  },
  { description: 'Result of a sign-in: tokens, or a request for the second factor.' },
)
export type AuthResponse = Static<typeof AuthResponse>

const CaptchaWork = resource(
  'CaptchaWork',
  {
    iterations: uint32({ description: 'Number of PBKDF2 iterations.', examples: [5000] }),
    bits: uint32({ description: 'Number of zero bits that the hash must start with.', examples: [8] }),
  },
  {
    description:
      'Proof of work that a text captcha requires in addition to the answer: the client computes a `captcha_proof` for which PBKDF2-HMAC-SHA-256 of `<captcha_id>:<captcha_proof>`, with the salt `mote-captcha` and `iterations` iterations, starts with `bits` zero bits. Absent for pictures.',
  },
)

export const Captcha = resource(
  'Captcha',
  {
    captcha_id: text({
      description: 'Id of the captcha, to be sent with the registration.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    captcha_image: text({
      description:
        'Data URL of a PNG that shows six letters and digits. With `format=text`, a data URL of the question as text.',
      examples: [
        'data:text/plain;charset=utf-8,Take%20the%20second%20letter%20of%20the%20word%20GARDEN%2C%20then%20add%20four%20and%20seven.%20Answer%20with%20the%20letter%20and%20the%20number%20in%20digits%2C%20without%20a%20space.',
        'data:image/png;base64,iVBORw0KGgo=',
      ],
    }),
    captcha_text: Type.Optional(
      text({
        description: 'The question, for people who cannot see a picture. Only present with `format=text`.',
        examples: [
          'Take the second letter of the word GARDEN, then add four and seven. Answer with the letter and the number in digits, without a space.',
        ],
      }),
    ),
    captcha_work: Type.Optional(CaptchaWork),
  },
  { description: 'A puzzle for one registration: a picture, or a question in words.' },
)
export type Captcha = Static<typeof Captcha>

export const Scopes = list(oneOf(['read', 'exec', 'deploy', 'write', 'admin']), {
  minItems: 1,
  maxItems: 5,
  uniqueItems: true,
  description:
    'Permissions of the token. `admin` includes `write`; `write` includes `deploy` and `exec` (programs, terminals and files in a VM); each includes `read`.',
  examples: [['deploy', 'read']],
})

const tokenId = uuid({ description: 'Id of the token, needed to revoke it.' })
const tokenName = text({ description: 'Label that the owner chose for the token.', examples: ['ci'] })
const lastFour = text({
  description: 'Last four characters of the token, by which its owner can recognize it. The rest is not stored.',
  examples: ['0QtJ'],
})
const boundProject = text({
  description: 'Slug of the project that the token is bound to; null if it works for every project of its owner.',
  examples: ['acme'],
})
const tokenExpiry = dateTime({
  description: 'When the token expires; null if it does not expire.',
  examples: ['2027-03-14T00:00:00.000Z'],
})

export const PersonalAccessToken = resource(
  'PersonalAccessToken',
  {
    id: tokenId,
    user_id: uuid({ description: 'Id of the account that owns the token.' }),
    name: tokenName,
    token_last_four: lastFour,
    created_at: dateTime({ description: 'When the token was created.' }),
    last_used_at: nullable(
      dateTime({ description: 'When the token was last used, accurate to about a minute; null if never.' }),
    ),
    scopes: Type.Optional(Scopes),
    project: maybe(boundProject),
    expires_at: maybe(tokenExpiry),
  },
  {
    description:
      'A personal access token: a long-lived credential for scripts and CI. The token itself is not included.',
  },
)
export type PersonalAccessToken = Static<typeof PersonalAccessToken>

export const CreatedToken = resource(
  'CreatedToken',
  {
    id: tokenId,
    name: tokenName,
    token: text({
      description: 'The token itself, for the `Authorization: Bearer` header. It is never shown again.',
      examples: ['svc_pat_b5nR2wLdE9aHfGjS6pIoKqXsBc3vWm8kZ1xT7uY0QtJ'],
    }),
    token_last_four: lastFour,
    created_at: dateTime({ description: 'When the token was created.' }),
    scopes: Type.Optional(Scopes),
    project: maybe(boundProject),
    expires_at: maybe(tokenExpiry),
  },
  { description: 'A new personal access token, including the token itself.' },
)
export type CreatedToken = Static<typeof CreatedToken>

const refreshToken = (description: string, options: Readonly<Record<string, unknown>> = {}) =>
  text({
    description,
    examples: ['svc_rt_Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
    ...options,
  })

export const RefreshRequest = resource(
  'RefreshRequest',
  {
    refresh_token: refreshToken('Refresh token of the session, from the last sign-in or refresh.', { maxLength: 512 }),
  },
  { description: 'Refresh token of a session.' },
)
export const RefreshResponse = resource(
  'RefreshResponse',
  {
    token: text({
      description: 'New session JWT. The previous one stays valid until it expires.',
      examples: ['eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl'],
    }),
    refresh_token: refreshToken('New refresh token. It replaces the one in the request, which no longer works.'),
  },
  { description: 'New tokens of a session.' },
)
export type RefreshResponse = Static<typeof RefreshResponse>

export const TotpSetup = resource(
  'TotpSetup',
  {
    secret: text({
      description: 'Secret to type into an authenticator app, in Base32 without padding.',
      examples: ['GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'],
    }),
    otpauth_url: text({
      description: 'Link that opens an authenticator app and contains the secret.',
      examples: [
        'otpauth://totp/Mote:ada%40example.com?issuer=Mote&secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&algorithm=SHA1&digits=6&period=30',
      ],
    }),
    qr_code: text({
      description: 'Data URL of a PNG that shows `otpauth_url` as a QR code.',
      examples: ['data:image/png;base64,iVBORw0KGgo='],
    }),
  },
  { description: 'Secret for an authenticator app: as text, link and QR code.' },
)
export type TotpSetup = Static<typeof TotpSetup>

export const TotpVerified = resource(
  'TotpVerified',
  {
    totp_enabled: bool({ description: 'Always true: signing in now requires a code.' }),
    recovery_codes: list(text(), {
      description:
        'Ten recovery codes. Each replaces a code of the authenticator app once. They are never shown again.',
      examples: [['8f3k-2mq9-x7tw-0vbn', 'c4h1-zp6r-5ydj-e9sg']],
    }),
  },
  { description: 'Result of turning on two-factor authentication.' },
)
export type TotpVerified = Static<typeof TotpVerified>

export const Session = resource(
  'Session',
  {
    id: uuid({ description: 'Id of the session, needed to revoke it.' }),
    ip_address: nullable(
      text({ description: 'IP address of the client that signed in; null if unknown.', examples: ['203.0.113.7'] }),
    ),
    user_agent: nullable(
      text({
        description: '`User-Agent` header of the sign-in request, cut to 500 characters; null if there was none.',
        examples: ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'],
      }),
    ),
    created_at: dateTime({ description: 'When the user signed in.' }),
    current: bool({ description: 'Whether the session is the one that this request was sent with.' }),
  },
  { description: 'An active session of an account, which began with a sign-in.' },
)
export type Session = Static<typeof Session>
