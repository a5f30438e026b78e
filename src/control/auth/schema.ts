import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, maybe, oneOf, resource, text } from '../http/types.ts'
import { accountOperations } from './account-schema.ts'
import { emailOperations } from './email-schema.ts'
import { code, email, newPassword, open, password, personName } from './fields.ts'
import { AuthResponse, Captcha, RefreshRequest, RefreshResponse, User } from './resources.ts'
import { sshKeyOperations } from './ssh-key-schema.ts'
import { tokenOperations } from './token-schema.ts'
import { twoFactorOperations } from './two-factor-schema.ts'

const signInOperations = operations({
  getCaptcha: {
    secretAnswer: true,
    method: 'GET',
    path: '/v1/auth/captcha',
    summary: 'Get a captcha',
    description:
      'Returns a puzzle whose solution `POST /v1/auth/register` requires. A captcha is valid for five minutes and for a single attempt, even if that attempt fails.',
    ...open,
    proof: 'none: public',
    scope: 'read',
    query: Type.Object({
      format: Type.Optional(
        oneOf(['image', 'text'], {
          default: 'image',
          description:
            'Kind of puzzle. `image`: a picture of six letters and digits. `text`: a question in words, which also requires the proof of work in `captcha_work`.',
        }),
      ),
    }),
    answer: Captcha,
  },
  register: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/register',
    summary: 'Create an account',
    description:
      'Creates an account and its default project, and sends an e-mail with a link that verifies the address. It does not start a session: sign in with `POST /v1/auth/login` next. Responds with 409 `name_taken` if the address already has an account.',
    ...open,
    proof: 'solved captcha',
    body: resource(
      'RegisterRequest',
      {
        captcha_answer: text({
          maxLength: 64,
          description: 'The characters in the picture, or the answer to the text question. Not case-sensitive.',
          examples: ['A11', 'KFX7WA'],
        }),
        captcha_id: text({
          maxLength: 64,
          description: '`captcha_id` of the captcha that `captcha_answer` solves.',
          examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
        }),
        captcha_proof: maybe(
          text({
            maxLength: 64,
            description:
              'Solution of the proof of work. Required if the captcha has `captcha_work`, whose description defines the computation.',
            examples: ['193'],
          }),
        ),
        email: email({
          description:
            'E-mail address to sign in with. It is stored in lower case, and each address can have one account.',
        }),
        password: newPassword(),
        first_name: maybe(
          personName({ description: 'Given name, shown to other project members.', examples: ['Ada'] }),
        ),
        last_name: maybe(
          personName({ description: 'Family name, shown to other project members.', examples: ['Example'] }),
        ),
      },
      { description: 'A new account, and the solution of a captcha.' },
    ),
    fails: [409],
    answer: User,
  },
  login: {
    secretAnswer: true,
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/login',
    summary: 'Sign in',
    description:
      'Starts a session and returns its tokens. For an account with two-factor authentication, a request without `code` returns `requires_2fa: true` and no tokens; repeat it with `code`. After several failures, further attempts are refused with 429 and `Retry-After`, for up to 15 minutes.',
    ...open,
    proof: 'password, and a code with two-factor authentication',
    body: resource(
      'LoginRequest',
      {
        email: text({
          maxLength: 254,
          description: 'E-mail address of the account. Not case-sensitive.',
          examples: ['ada@example.com'],
        }),
        password: password(),
        code: maybe(
          code({
            description:
              'Six digits from the authenticator app, or a recovery code. Required for accounts with two-factor authentication.',
          }),
        ),
      },
      { description: 'Credentials of an account.' },
    ),
    answer: AuthResponse,
    fails: [401],
  },
  refreshSession: {
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/refresh',
    summary: 'Refresh a session',
    description:
      'Exchanges a refresh token for a new session JWT and a new refresh token. A refresh token works once: if it is sent again, all sessions of the user are revoked, because the token may have been stolen. Store the new token before you use it. If the response may get lost, send an `Idempotency-Key` of 22 to 255 random characters: the same request can then be repeated until the new token is used.',
    ...open,
    proof: 'unused refresh token',
    body: RefreshRequest,
    answer: RefreshResponse,
    fails: [401],
  },
  logout: {
    method: 'POST',
    path: '/v1/auth/logout',
    summary: 'Sign out',
    description:
      'Revokes the session of a refresh token: its JWTs stop working and its open event streams end. The response is the same if the token is unknown or the session has already ended.',
    ...open,
    proof: 'refresh token',
    body: RefreshRequest,
    answer: acknowledgement('logged_out'),
  },
})

export const authOperations = {
  ...emailOperations,
  ...signInOperations,
  ...accountOperations,
  ...twoFactorOperations,
  ...tokenOperations,
  ...sshKeyOperations,
}
