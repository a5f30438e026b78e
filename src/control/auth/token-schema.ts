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
      'Lists the tokens of the account, including expired ones, newest first. A request with a token that is bound to a project lists only tokens bound to the same project.',
    ...own,
    scope: 'read',
    list: { order: ['-id'], filters: ['name'] },
    items: [
      {
        id: 'getToken',
        path: '/v1/auth/tokens/{token_id}',
        by: 'id',
        summary: 'Get a personal access token',
        description: 'Returns the properties of one token. The token itself cannot be read again.',
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
      'Creates a token for scripts and CI. Only the response shows the token itself. The token can have at most the scopes and the project of the credential that creates it, and stays valid after a change of the password. An account can have at most 100 tokens. The owner of the account gets a notification and an e-mail about each new token.',
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
              'Slug or id of the project that the token is bound to. Default: the project of the token that creates it, if that is bound to one; otherwise every project of the account.',
            examples: ['acme'],
          }),
        ),
        scopes: maybe(Scopes, {
          description:
            'Permissions of the token. `admin` includes `write`, `write` includes `deploy`, `deploy` includes `read`. Default: every scope of the credential that creates it.',
          examples: [['deploy']],
        }),
        expires_at: maybe(dateTime(), {
          description: 'When the token expires; must be in the future. Default: never.',
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
      'Deletes the token: further requests with it fail, and event streams that it opened end. Sessions and other tokens are not affected.',
    ...own,
    scope: 'admin',
    params: Type.Object({
      token_id: text({
        description: 'Id of the token, from the list of tokens; not the token itself.',
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
      'Lists the sessions of the account that are not revoked and can still be refreshed, newest first. Not available for tokens that are bound to a project.',
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
      'Ends one session at once: its JWT and refresh token stop working, and its event streams end. A session may revoke itself.',
    ...own,
    scope: 'admin',
    params: Type.Object({ session_id: uuid({ description: 'Id of the session, from the list of sessions.' }) }),
    answer: acknowledgement('revoked'),
    addition: true,
  },
})
