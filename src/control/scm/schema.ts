import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  Acknowledgement,
  bool,
  dateTime,
  int64,
  list,
  maybe,
  nullable,
  oneOf,
  rawText,
  resource,
  text,
} from '../http/types.ts'

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

const credentialKinds = ['token', 'ssh_key'] as const

export const GitCredential = resource('GitCredential', {
  kind: oneOf(credentialKinds),
  host: text({ description: 'The one it is for.' }),
  username: text(),
  public_key: nullable(text({ description: 'Make it a deploy key of the repository, at its host.' })),
  known_hosts: nullable(text()),
  updated_at: dateTime(),
})

const PutGitCredential = resource('PutGitCredentialRequest', {
  kind: oneOf(credentialKinds, { description: '`ssh_key`: a key pair is made; its private half is never shown.' }),
  username: maybe(
    text({ minLength: 1, maxLength: 255, pattern: '^[^:\\s]+$', 'x-mote-pattern': 'neither spaces nor colons' }),
  ),
  token: maybe(text({ minLength: 1, maxLength: 4096, description: 'With `token`. Never shown again.' })),
  known_hosts: maybe(
    rawText({ maxLength: 16_384, description: 'With `ssh_key`: what `ssh-keyscan` says of the host.' }),
  ),
})
export type PutGitCredential = Static<typeof PutGitCredential>

export const ScmDelivery = resource('ScmDelivery', {
  id: text({ description: 'As the git host named it.' }),
  event: text(),
  status: oneOf(['applied', 'ignored', 'refused']),
  reason: text({ description: 'Why not more; empty when it was applied.' }),
  branch: text(),
  commit_hash: text(),
  received_at: dateTime(),
})
export type ScmDelivery = Static<typeof ScmDelivery>

const ScmInstalled = resource('ScmInstalled', {
  status: text({ description: '`installed`, or `confirm`: the program that began needs the confirmation' }),
  confirmation: Type.Optional(text({ description: 'For the program that began, good once, for 10 minutes.' })),
  message: Type.Optional(text()),
})

const ofApp = Type.Object({ app_name: text() })

const shared = { tag: 'Source host', auth: 'bearer', project: 'selected' } as const

export const scmOperations = operations({
  installScm: {
    method: 'GET',
    path: '/v1/scm/install',
    summary: 'Where to install the integration, as `{url}`; a cookie marks the browser that began it',
    ...shared,
    secretAnswer: true,
    scope: 'admin',
    query: Type.Object({
      confirm: Type.Optional(
        bool({
          default: false,
          description:
            'For programs that have no browser: the page at the end shows a confirmation for `POST /v1/scm/install/confirm`.',
        }),
      ),
    }),
    answer: 'free',
    fails: [409],
  },
  confirmScm: {
    method: 'POST',
    path: '/v1/scm/install/confirm',
    summary: 'Binds an installation that a program began, with the confirmation that the browser shows',
    ...shared,
    scope: 'admin',
    addition: true,
    body: resource('ConfirmScmRequest', { confirmation: text({ maxLength: 1024 }) }),
    answer: ScmInstalled,
  },
  scmCallback: {
    method: 'GET',
    path: '/v1/scm/callback',
    summary: 'Where the source host sends the browser after an installation',
    tag: 'Source host',
    auth: 'none',
    proof:
      'signed state, used once, in the browser that began or with a confirmation; code of the source host for a person who controls the installation',
    scope: 'write',
    project: 'none',
    query: Type.Object({
      installation_id: int64(),
      setup_action: text({ maxLength: 100 }),
      state: Type.Optional(text({ maxLength: 1024, description: 'Signed by us; without it nothing is bound.' })),
      code: Type.Optional(
        text({
          maxLength: 512,
          description: 'From the source host: proves that the person in the browser controls the installation.',
        }),
      ),
    }),
    secretAnswer: true,
    answer: ScmInstalled,
    fails: [409],
  },
  getGitCredential: {
    method: 'GET',
    path: '/v1/apps/{app_name}/git-credential',
    summary: 'What reads the repository of the app; secrets are not shown',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: GitCredential,
    addition: true,
  },
  putGitCredential: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/git-credential',
    summary: 'Sets a token, or makes a deploy key, for the host of the repository',
    ...shared,
    scope: 'write',
    params: ofApp,
    body: PutGitCredential,
    answer: GitCredential,
    addition: true,
  },
  deleteGitCredential: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/git-credential',
    summary: 'Forgets it',
    ...shared,
    scope: 'write',
    params: ofApp,
    answer: Acknowledgement,
    addition: true,
  },
  listScmDeliveries: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deliveries',
    summary: 'What git hosts said of the app in the last 30 days, and what came of it; newest first',
    ...shared,
    scope: 'read',
    params: ofApp,
    list: { order: ['-received_at', 'id'], filters: ['status'] },
    answer: list(ScmDelivery),
    addition: true,
    items: [
      {
        id: 'getScmDelivery',
        path: '/v1/apps/{app_name}/deliveries/{delivery_id}',
        by: 'id',
        summary: 'One delivery of the git host',
      },
    ],
  },
  listRepositories: {
    method: 'GET',
    path: '/v1/scm/repos',
    summary: 'Repositories the installations of the project can read',
    ...shared,
    scope: 'read',
    list: { order: ['full_name', 'id'], filters: ['full_name'] },
    answer: list(Repository),
    asksOthers: true,
  },
  listScmAccounts: {
    method: 'GET',
    path: '/v1/scm/accounts',
    summary: 'Accounts the integration is installed on',
    ...shared,
    scope: 'read',
    list: { order: ['login', 'installation_id'], filters: ['login'] },
    answer: list(ScmAccount),
  },
})
