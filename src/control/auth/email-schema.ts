/** Operations about the address of an account. */
import { operations } from '../http/operation.ts'
import { Acknowledgement, resource } from '../http/types.ts'
import { email, linkToken, newPassword, open, own, proof } from './fields.ts'

export const emailOperations = operations({
  sendVerification: {
    method: 'POST',
    path: '/v1/auth/email/verification',
    summary: 'Send a verification link',
    description:
      'Mails a link that verifies the e-mail address of the account; it is valid for seven days and replaces earlier ones. At most one link a minute is sent: `status` is `sent` or `sent_a_moment_ago`. The answer is 409 if the address is already verified.',
    ...own,
    scope: 'admin',
    answer: Acknowledgement,
    addition: true,
  },
  verifyEmail: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/email/verify',
    summary: 'Verify an e-mail address',
    description:
      'Takes the secret of a mailed link and marks the address as verified, or completes a change of the address: `status` is `verified` or `changed`. A link works once; afterwards, or once it has expired, the answer is 400.',
    ...open,
    proof: 'secret of a mailed link',
    body: resource(
      'VerifyEmailRequest',
      { token: linkToken() },
      { description: 'Secret of a link that was mailed to the address.' },
    ),
    answer: Acknowledgement,
    fails: [409],
    addition: true,
  },
  changeEmail: {
    method: 'POST',
    path: '/v1/auth/email',
    summary: 'Change your e-mail address',
    description:
      'Mails a link, valid for one day, to the new address; the account keeps its address until the link is opened. The old address is notified now and after the change. At most one link a minute is sent: `status` is `sent` or `sent_a_moment_ago`.',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource(
      'ChangeEmailRequest',
      {
        email: email({ description: 'New address to sign in with.', examples: ['ada.new@example.com'] }),
        ...proof(),
      },
      { description: 'New address, and proof that the owner of the account asks.' },
    ),
    answer: Acknowledgement,
    addition: true,
  },
  forgotPassword: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/password/forgot',
    summary: 'Send a password reset link',
    description:
      'Mails a link, valid for one hour, for `POST /v1/auth/password/reset`, if the address has an account. The answer is the same if it has none. At most one link a minute is sent to an address.',
    ...open,
    proof: 'none: the link goes to the address',
    body: resource(
      'ForgotPasswordRequest',
      { email: email({ description: 'Address of the account.' }) },
      { description: 'Account whose password is to be reset.' },
    ),
    answer: Acknowledgement,
    addition: true,
  },
  resetPassword: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/password/reset',
    summary: 'Reset a password',
    description:
      'Takes the secret of a mailed link and sets a new password. Every session ends and other mailed links stop working; the address counts as verified. A second factor stays on. The account is notified.',
    ...open,
    proof: 'secret of a mailed link',
    body: resource(
      'ResetPasswordRequest',
      { token: linkToken(), new_password: newPassword() },
      { description: 'Secret of a mailed link, and the new password.' },
    ),
    answer: Acknowledgement,
    addition: true,
  },
})
