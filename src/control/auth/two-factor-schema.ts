/** Operations on the second factor of an account. */
import { operations } from '../http/operation.ts'
import { acknowledgement, maybe, resource } from '../http/types.ts'
import { code, own, password, proof } from './fields.ts'
import { TotpSetup, TotpVerified } from './resources.ts'

const setup = {
  secretAnswer: true,
  path: '/v1/auth/2fa/setup',
  summary: 'Set up two-factor authentication',
  ...own,
  scope: 'admin',
  answer: TotpSetup,
} as const

export const twoFactorOperations = operations({
  setupTotp: {
    ...setup,
    method: 'GET',
    fails: [409],
    description:
      'Creates a secret for an authenticator app (TOTP, RFC 6238). It takes effect once `POST /v1/auth/2fa/verify` receives a code that was generated with it; until then, each call replaces the secret. Responds with 409 if two-factor authentication is already on.',
  },
  setupTotpByPost: {
    ...setup,
    method: 'POST',
    description: 'Does the same as `GET /v1/auth/2fa/setup`.',
    addition: true,
  },
  verifyTotp: {
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/2fa/verify',
    summary: 'Turn on two-factor authentication',
    description:
      'Turns on two-factor authentication if the code of the authenticator app is right. From then on, signing in requires a code. The response contains ten recovery codes, which are never shown again. The owner of the account gets a notification and an e-mail.',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource(
      'VerifyTotpRequest',
      {
        code: code({ description: 'Current six-digit code of the authenticator app.' }),
        password: maybe(password(), {
          description: 'Password of the account. Not needed in a session that began within the last 10 minutes.',
        }),
      },
      {
        description:
          'Code of the authenticator app, and the password as proof that the request comes from the owner of the account.',
      },
    ),
    answer: TotpVerified,
  },
  disableTotp: {
    method: 'POST',
    path: '/v1/auth/2fa/disable',
    summary: 'Turn off two-factor authentication',
    description:
      'Removes the second factor and its recovery codes: signing in then requires the password only. The owner of the account gets a notification and an e-mail. Responds with 409 if two-factor authentication is already off.',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource('DisableTotpRequest', proof(), {
      description:
        'Password of the account, or code of the authenticator app, as proof that the request comes from the owner of the account. Neither is needed in a session that began within the last 10 minutes.',
    }),
    answer: acknowledgement('disabled'),
  },
})
