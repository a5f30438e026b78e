import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { Acknowledgement, bool, int64, list, nullable, resource, text } from '../http/types.ts'

export const Repository = resource('Repository', {
  id: int64(),
  full_name: text(),
  private: bool(),
  default_branch: text(),
  clone_url: text(),
  html_url: text(),
  installation_id: int64(),
})
export type Repository = Static<typeof Repository>

export const ScmAccount = resource('ScmAccount', {
  installation_id: int64(),
  login: text(),
  type: text({ description: '`User` or `Organization`.' }),
  avatar_url: nullable(text()),
})
export type ScmAccount = Static<typeof ScmAccount>

const shared = { tag: 'Source host', auth: 'bearer', project: 'selected' } as const

export const scmOperations = operations({
  installScm: {
    method: 'GET',
    path: '/v1/scm/install',
    summary: 'Where to install the integration, as `{url}`',
    ...shared,
    scope: 'admin',
    answer: 'free',
  },
  scmCallback: {
    method: 'GET',
    path: '/v1/scm/callback',
    summary: 'Where the source host sends the browser after an installation',
    tag: 'Source host',
    auth: 'none',
    scope: 'write',
    project: 'none',
    query: Type.Object({
      installation_id: int64(),
      setup_action: text({ maxLength: 100 }),
      state: Type.Optional(text({ maxLength: 1024, description: 'Signed by us; without it nothing is bound.' })),
    }),
    answer: Acknowledgement,
  },
  listRepositories: {
    method: 'GET',
    path: '/v1/scm/repos',
    summary: 'Repositories the installations of the project can read',
    ...shared,
    scope: 'read',
    answer: list(Repository),
  },
  listScmAccounts: {
    method: 'GET',
    path: '/v1/scm/accounts',
    summary: 'Accounts the integration is installed on',
    ...shared,
    scope: 'read',
    answer: list(ScmAccount),
  },
})
