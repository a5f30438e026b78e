/** Operations on the credentials of an account: personal access tokens and sessions. */
import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, displayName, list, maybe, resource, text, uuid } from '../http/types.ts'
import { own } from './fields.ts'
import { CreatedToken, PersonalAccessToken, Scopes, Session } from './resources.ts'

export const tokenOperations = operations({
  listTokens: {
    method: 'GET',
    path: '/v1/auth/tokens',
    summary: 'List personal access tokens',
    description:
      'Lists the tokens of the account, newest first, expired ones included. A token that is bound to a project sees only tokens bound to the same project.',
    ...own,
    scope: 'read',
    list: { order: ['-id'], filters: ['name'] },
    items: [
      {
        id: 'getToken',
        path: '/v1/auth/tokens/{token_id}',
        by: 'id',
        summary: 'Get a personal access token',
        description: 'Returns what the list shows of one token. The token itself cannot be read again.',
      },
    ],
    answer: list(PersonalAccessToken),
  },
  createToken: {
    throttle: 'create',
    secretAnswer: true,
    method: 'POST',
    path: '/v1/auth/tokens',
    summary: 'Create a personal access token',
    description:
      'Makes a token for scripts and CI; the answer is the only place where it is shown. It gets at most the scopes and the project of the credential that creates it, and it survives a change of the password. An account has at most 100 tokens and is notified of each new one.',
    ...own,
    scope: 'admin',
    body: resource(
      'CreateTokenRequest',
      {
        name: displayName({ description: 'Label to recognize the token by.', examples: ['ci'] }),
        project: maybe(
          text({
            maxLength: 100,
            description:
              'Slug or id of the only project the token may act in. Default: every project of the account, or the project of the token that creates it.',
            examples: ['acme'],
          }),
        ),
        scopes: maybe(Scopes, {
          description:
            'What the token may do. `admin` includes `write`, `write` includes `deploy`, `deploy` includes `read`. Default: every scope of the credential that creates it.',
          examples: [['deploy']],
        }),
        expires_at: maybe(dateTime(), {
          description: 'When the token stops working; must be in the future. Default: never.',
          examples: ['2027-03-14T00:00:00.000Z'],
        }),
      },
      { description: 'Name and permissions of a new token.' },
    ),
    answer: CreatedToken,
  },
  revokeToken: {
    method: 'DELETE',
    path: '/v1/auth/tokens/{token_id}',
    summary: 'Revoke a personal access token',
    description:
      'Deletes the token: requests with it fail from now on and event streams that it opened end. Sessions and other tokens are not affected.',
    ...own,
    scope: 'admin',
    params: Type.Object({
      token_id: text({
        description: 'Id of the token, as listed; not the token itself.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    }),
    answer: acknowledgement('revoked'),
  },
  listSessions: {
    method: 'GET',
    path: '/v1/auth/sessions',
    summary: 'List sessions',
    description:
      'Lists where the account is signed in, newest first: sessions that are not revoked and can still be refreshed. Not for tokens that are bound to a project.',
    ...own,
    scope: 'read',
    list: { order: ['-id'] },
    items: [
      {
        id: 'getSession',
        path: '/v1/auth/sessions/{session_id}',
        by: 'id',
        summary: 'Get a session',
        description: 'Returns one session of the account; 404 once it is revoked or can no longer be refreshed.',
      },
    ],
    answer: list(Session),
    addition: true,
  },
  revokeSession: {
    method: 'DELETE',
    path: '/v1/auth/sessions/{session_id}',
    summary: 'Revoke a session',
    description:
      'Signs one session out at once: its JWT and refresh token stop working and its event streams end. It may be the session that asks.',
    ...own,
    scope: 'admin',
    params: Type.Object({ session_id: uuid({ description: 'Id of the session, as listed.' }) }),
    answer: acknowledgement('revoked'),
    addition: true,
  },
})
