import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, bool, list, resource, text } from '../http/types.ts'
import {
  GitCredential,
  PutGitCredential,
  Repository,
  ScmAccount,
  ScmConfirmed,
  ScmDelivery,
  ScmInstalled,
  installationId,
} from './resources.ts'

const ofApp = Type.Object({
  app_name: text({ description: 'Name of the app, in the selected project.', examples: ['shop'] }),
})

const shared = { tag: 'Source host', auth: 'bearer', project: 'selected' } as const

export const scmOperations = operations({
  installScm: {
    method: 'GET',
    path: '/v1/scm/install',
    summary: 'Start installing the GitHub integration',
    description:
      'Returns the URL of the page on which a person installs the GitHub App and chooses repositories. The link is valid for 30 minutes and works once, only in the browser that sent this request and received its cookie. Responds with 409 if this installation of Mote has no GitHub App.',
    ...shared,
    secretAnswer: true,
    scope: 'admin',
    query: Type.Object({
      confirm: Type.Optional(
        bool({
          default: false,
          description:
            'Whether to finish with a confirmation code instead of a cookie, for programs without a browser, such as a command line. The last page then shows the code for `POST /v1/scm/install/confirm`. Default: false.',
        }),
      ),
    }),
    answer: resource('ScmInstallation', {
      url: text({
        description: 'URL of the page on which GitHub requests the permission, to be opened in a browser.',
        examples: ['https://github.com/apps/mote/installations/new?state=4f1c2a9b'],
      }),
    }),
    setsCookie: true,
    fails: [409],
  },
  confirmScm: {
    method: 'POST',
    path: '/v1/scm/install/confirm',
    summary: 'Confirm the installation of the GitHub App',
    description:
      'Binds an installation of the GitHub App that was started with `GET /v1/scm/install?confirm=true` to the project. Only the user who started the installation can confirm it, in the same project, once and within 10 minutes.',
    ...shared,
    scope: 'admin',
    addition: true,
    body: resource(
      'ConfirmScmRequest',
      {
        confirmation: text({
          maxLength: 1024,
          description: 'The confirmation that the last page in the browser shows.',
          examples: ['eyJpZCI6IjAxOTdlMGYzIn0.Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
        }),
      },
      { description: 'Confirmation that the browser showed after the GitHub App was installed.' },
    ),
    answer: ScmConfirmed,
  },
  scmCallback: {
    method: 'GET',
    path: '/v1/scm/callback',
    summary: 'Finish installing the GitHub integration',
    description:
      'GitHub sends the browser here after the GitHub App was installed. If the person may read every repository of the installation, the installation is bound to the project that started it, or a confirmation is returned. API clients do not use this operation.',
    tag: 'Source host',
    auth: 'none',
    proof:
      'signed `state`, valid once, in the browser that requested it or with a confirmation code; and a `code` from the source host, for a user who controls the installation of the GitHub App',
    scope: 'write',
    project: 'none',
    query: Type.Object({
      installation_id: installationId(),
      setup_action: text({
        maxLength: 100,
        description: 'What the person did, as GitHub names it: `install`, `update` or `request`. Not used.',
        examples: ['install'],
      }),
      state: Type.Optional(
        text({
          maxLength: 1024,
          description: 'Signed state from `GET /v1/scm/install`. Required: without it, the request fails with 400.',
          examples: ['eyJpZCI6IjAxOTdlMGYzIn0.Wm8kZ1xT7uYb5nR2wLdE9aHfGjS6pIoKqXsBc3vQ0Jt'],
        }),
      ),
      code: Type.Optional(
        text({
          maxLength: 512,
          description:
            'Authorization code from GitHub, which identifies the person in the browser. Required: without it, the request fails with 400.',
          examples: ['0d1f5e7a9c3b2846e0f1'],
        }),
      ),
    }),
    secretAnswer: true,
    setsCookie: true,
    answer: ScmInstalled,
    fails: [409],
  },
  getGitCredential: {
    method: 'GET',
    path: '/v1/apps/{app_name}/git-credential',
    summary: 'Get the Git credential of an app',
    description:
      'Returns the credential that builds use to read the repository of the app, without its token or private key. Responds with 404 if the app has no Git credential.',
    ...shared,
    scope: 'read',
    params: ofApp,
    answer: GitCredential,
    addition: true,
  },
  putGitCredential: {
    method: 'PUT',
    path: '/v1/apps/{app_name}/git-credential',
    summary: 'Set the Git credential of an app',
    description:
      "Stores a token, or generates a new deploy key, for a repository that the GitHub integration does not cover. An existing credential is replaced. The credential is used only for the host of the app's current `git_url`. Responds with 409 if `git_url` has the wrong form: a token requires HTTPS, a key requires SSH.",
    ...shared,
    scope: 'write',
    params: ofApp,
    body: PutGitCredential,
    fails: [409],
    answer: GitCredential,
    addition: true,
  },
  deleteGitCredential: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/git-credential',
    summary: 'Delete the Git credential of an app',
    description:
      'Deletes the credential; later builds read the repository without it. A deploy key is not removed from the Git host: remove it there as well.',
    ...shared,
    scope: 'write',
    params: ofApp,
    answer: acknowledgement('deleted'),
    addition: true,
  },
  listScmDeliveries: {
    method: 'GET',
    path: '/v1/apps/{app_name}/deliveries',
    summary: 'List webhook deliveries for an app',
    description:
      'Lists the webhook deliveries of Git hosts for the app in the last 30 days and their effects, newest first. Deliveries with a wrong signature are not listed.',
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
        summary: 'Get a webhook delivery',
        description: 'Returns one webhook delivery of a Git host and its effect.',
      },
    ],
  },
  listRepositories: {
    method: 'GET',
    path: '/v1/scm/repos',
    summary: 'List repositories',
    description:
      'Queries GitHub for the repositories that the GitHub App installations of the project can read, at most 1,000 for each installation. Suspended installations are left out. The list is empty if no GitHub App installation is bound to the project.',
    ...shared,
    scope: 'read',
    list: { order: ['full_name', 'id'], filters: ['full_name'] },
    answer: list(Repository),
    asksOthers: true,
  },
  listScmAccounts: {
    method: 'GET',
    path: '/v1/scm/accounts',
    summary: 'List accounts with the integration',
    description:
      'Lists the GitHub accounts whose installation of the GitHub App is bound to the project, including suspended ones. The request does not query GitHub.',
    ...shared,
    scope: 'read',
    list: { order: ['login', 'installation_id'], filters: ['login'] },
    answer: list(ScmAccount),
  },
})
