/** Operations about the address of an account. */
import { operations } from '../http/operation.ts'
import { Acknowledgement, resource } from '../http/types.ts'
import { email, linkToken, open, own, password, proof } from './fields.ts'

export const emailOperations = operations({
  sendVerification: {
    method: 'POST',
    path: '/v1/auth/email/verification',
    summary: 'Mails a link that verifies the e-mail address; at most one a minute',
    ...own,
    scope: 'admin',
    answer: Acknowledgement,
    addition: true,
  },
  verifyEmail: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/email/verify',
    summary: 'Verifies an address, or completes a change of it, with the secret of a mailed link',
    ...open,
    proof: 'secret of a mailed link',
    body: resource('VerifyEmailRequest', { token: linkToken() }),
    answer: Acknowledgement,
    addition: true,
  },
  changeEmail: {
    method: 'POST',
    path: '/v1/auth/email',
    summary: 'Mails a link to a new address, which the account gets once it is opened; the old one is notified',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource('ChangeEmailRequest', { email: email(), ...proof() }),
    answer: Acknowledgement,
    addition: true,
  },
  forgotPassword: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/password/forgot',
    summary: 'Mails a link that resets the password, if there is such an account; the answer is always the same',
    ...open,
    proof: 'none: the link goes to the address',
    body: resource('ForgotPasswordRequest', { email: email() }),
    answer: Acknowledgement,
    addition: true,
  },
  resetPassword: {
    throttle: 'login',
    method: 'POST',
    path: '/v1/auth/password/reset',
    summary: 'Sets a new password with the secret of a mailed link and ends every session',
    ...open,
    proof: 'secret of a mailed link',
    body: resource('ResetPasswordRequest', { token: linkToken(), new_password: password() }),
    answer: Acknowledgement,
    addition: true,
  },
})
