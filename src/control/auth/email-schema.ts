/** Operations on the e-mail address of an account. */
import { operations } from '../http/operation.ts'
import { acknowledgement, oneOf, resource } from '../http/types.ts'
import { email, linkToken, newPassword, open, own, proof } from './fields.ts'

const MailedLink = resource(
  'MailedLink',
  {
    status: oneOf(['sent', 'sent_a_moment_ago'], {
      description:
        '`sent`: a link was sent. `sent_a_moment_ago`: no link was sent, because the last one was sent less than a minute ago; wait for it.',
    }),
  },
  { description: 'Whether a link was mailed.' },
)

const VerifiedEmail = resource(
  'VerifiedEmail',
  {
    status: oneOf(['verified', 'changed'], {
      description:
        '`verified`: the address of the account is verified. `changed`: the account now has the new address.',
    }),
  },
  { description: 'Result of opening a mailed link.' },
)

export const emailOperations = operations({
  sendVerification: {
    method: 'POST',
    path: '/v1/auth/email/verification',
    summary: 'Send a verification link',
    description:
      'Mails a link that verifies the e-mail address of the account; it is valid for seven days and replaces earlier ones. At most one link a minute is sent. Responds with 409 if the address is already verified.',
    ...own,
    scope: 'admin',
    answer: MailedLink,
    addition: true,
  },
  verifyEmail: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/email/verify',
    summary: 'Verify an e-mail address',
    description:
      'Takes the secret of a mailed link and marks the address as verified, or completes a change of the address. A link works once. Responds with 400 if the link was already used or has expired, and with 409 if another account has the new address.',
    ...open,
    proof: 'secret of a mailed link',
    body: resource(
      'VerifyEmailRequest',
      { token: linkToken() },
      { description: 'Secret of a link that was mailed to the address.' },
    ),
    answer: VerifiedEmail,
    fails: [409],
    addition: true,
  },
  changeEmail: {
    method: 'POST',
    path: '/v1/auth/email',
    summary: 'Change your e-mail address',
    description:
      'Mails a link, valid for one day, to the new address; the account keeps its address until the link is opened. The old address gets an e-mail now, and another one after the change. At most one link a minute is sent.',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource(
      'ChangeEmailRequest',
      {
        email: email({ description: 'New address to sign in with.', examples: ['ada.new@example.com'] }),
        ...proof(),
      },
      {
        description:
          'New address, and the password of the account or a code of the authenticator app as proof that the request comes from the owner of the account.',
      },
    ),
    answer: MailedLink,
    addition: true,
  },
  forgotPassword: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/password/forgot',
    summary: 'Send a password reset link',
    description:
      'Mails a link, valid for one hour, for `POST /v1/auth/password/reset`, if the address has an account. The response is the same if it has none. At most one link a minute is sent to an address.',
    ...open,
    proof: 'none: the link is mailed to the address',
    body: resource(
      'ForgotPasswordRequest',
      { email: email({ description: 'Address of the account.' }) },
      { description: 'Account whose password is to be reset.' },
    ),
    answer: acknowledgement('accepted'),
    addition: true,
  },
  resetPassword: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/password/reset',
    summary: 'Reset a password',
    description:
      'Sets a new password. Requires the secret of the link that `POST /v1/auth/password/forgot` mailed. All sessions of the account end, other links that were mailed to its owner stop working, and the e-mail address counts as verified. Two-factor authentication stays on. The owner of the account gets a notification and an e-mail.',
    ...open,
    proof: 'secret of a mailed link',
    body: resource(
      'ResetPasswordRequest',
      { token: linkToken(), new_password: newPassword() },
      { description: 'Secret of a mailed link, and the new password.' },
    ),
    answer: acknowledgement('password_changed'),
    addition: true,
  },
})
