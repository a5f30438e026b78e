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
      'Changes the members that are sent. Members that are absent or null stay unchanged. A token that is bound to a project cannot change the account.',
    ...own,
    scope: 'admin',
    body: resource(
      'UpdateMeRequest',
      {
        email_notifications: maybe(
          bool({
            description:
              'Whether to send important notifications by e-mail, too. Security notifications are always sent by e-mail.',
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
            description: 'HTTPS URL of a profile picture, without a user name or password; empty to remove it.',
            examples: ['https://example.com/ada.png'],
          }),
        ),
      },
      { description: 'Changes to a profile. Members that are absent or null stay unchanged.' },
    ),
    bodyRequired: true,
    answer: User,
  },
  deleteMe: {
    method: 'DELETE',
    path: '/v1/auth/me',
    summary: 'Delete your account',
    description:
      'Deletes the account at once, with all its sessions, tokens and SSH keys, and every project that has no other member, including all data. Projects with other members remain: if the account was the only owner, the member with the highest role becomes the owner. The last administrator of the installation cannot be deleted while there are other accounts.',
    ...own,
    scope: 'admin',
    stepUp: true,
    body: resource('DeleteMeRequest', proof(), {
      description:
        'Password of the account, or code of the authenticator app, as proof that the request comes from the owner of the account. Neither is needed in a session that began within the last 10 minutes.',
    }),
    answer: acknowledgement('deleted'),
  },
  changePassword: {
    method: 'POST',
    path: '/v1/auth/password',
    summary: 'Change your password',
    description:
      'Replaces the password and ends every session, including the one that sent the request: sign in again. Personal access tokens keep working. The owner of the account gets a notification and an e-mail.',
    ...own,
    scope: 'admin',
    proof: 'current password',
    stepUp: true,
    body: resource(
      'ChangePasswordRequest',
      {
        current_password: password({ description: 'Current password of the account.' }),
        new_password: newPassword({ examples: ['teal-lantern-gravel-58'] }),
      },
      { description: 'The old and the new password.' },
    ),
    answer: acknowledgement('password_changed'),
  },
})
