/** Operations on the caller's own account. */
import { operations } from '../http/operation.ts'
import { acknowledgement, bool, maybe, resource, text } from '../http/types.ts'
import { newPassword, own, password, personName, proof } from './fields.ts'
import { User } from './resources.ts'

export const accountOperations = operations({
  getMe: {
    method: 'GET',
    path: '/v1/auth/me',
    summary: 'Get your account',
    description: 'Returns the account that the session or token belongs to.',
    ...own,
    scope: 'read',
    answer: User,
  },
  updateMe: {
    method: 'PUT',
    path: '/v1/auth/me',
    summary: 'Update your profile',
    description:
      'Changes the members that are sent; absent and null members keep their value. A token that is bound to a project cannot change the account.',
    ...own,
    scope: 'admin',
    body: resource(
      'UpdateMeRequest',
      {
        email_notifications: maybe(
          bool({
            description: 'Whether to send important notifications by e-mail, too. Security notifications always are.',
          }),
        ),
        first_name: maybe(personName({ description: 'Given name; empty to clear it.', examples: ['Ada'] })),
        last_name: maybe(personName({ description: 'Family name; empty to clear it.', examples: ['Example'] })),
        marketing_emails: maybe(
          bool({ description: 'Whether to send product announcements by e-mail, too.', examples: [false] }),
        ),
        avatar_url: maybe(
          text({
            maxLength: 2048,
            description: 'https URL of a profile picture, without a user name or password; empty to remove it.',
            examples: ['https://example.com/ada.png'],
          }),
        ),
      },
      { description: 'Changes of a profile. Absent and null members keep their value.' },
    ),
    bodyRequired: true,
    answer: User,
  },
  deleteMe: {
    method: 'DELETE',
    path: '/v1/auth/me',
    summary: 'Delete your account',
    description:
      'Deletes the account at once, with all its sessions, tokens and SSH keys, and every project without another member, including all data. Projects with other members stay: if the account was the only owner, the member with the highest role becomes owner. The last administrator of the installation cannot be deleted while there are other accounts.',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource('DeleteMeRequest', proof(), {
      description: 'Proof that the owner of the account asks. Empty in a session that began within 10 minutes.',
    }),
    answer: acknowledgement('deleted'),
  },
  changePassword: {
    method: 'POST',
    path: '/v1/auth/password',
    summary: 'Change your password',
    description:
      'Replaces the password and ends every session, including the one that asks: sign in again. Personal access tokens keep working. The account is notified.',
    ...own,
    scope: 'admin',
    proof: 'current password',
    stepUp: true,
    body: resource(
      'ChangePasswordRequest',
      {
        current_password: password({ description: 'Password to be replaced.' }),
        new_password: newPassword({ examples: ['teal-lantern-gravel-58'] }),
      },
      { description: 'The old and the new password.' },
    ),
    answer: acknowledgement('password_changed'),
  },
})
