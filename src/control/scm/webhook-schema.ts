import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { oneOf, resource, text } from '../http/types.ts'
import { maxEventBytes, webhook } from '../http/webhook.ts'

const ScmEventEffect = resource(
  'ScmEventEffect',
  {
    status: oneOf(['applied', 'ignored', 'refused', 'duplicate', 'pong'], {
      description:
        '`applied`: a deployment was started, or stored data about the repository was updated. `ignored`: the event is outdated, or does not concern an app. `refused`: the plan or the state of the app does not allow it. `duplicate`: the event was received before. `pong`: response to a test event.',
    }),
  },
  { description: 'Effect of an event from a Git host.' },
)

export const scmWebhookOperations = operations({
  receiveAppWebhook: {
    ...webhook,
    path: '/v1/webhooks/scm/{app_name}',
    proof: 'signature with the secret of the app over the body, or that secret (GitLab)',
    answer: ScmEventEffect,
    maxBytes: maxEventBytes,
    summary: 'Receive an event of a Git host for an app',
    description:
      'Receives a push or pull request event of GitHub, GitLab, Gitea or Forgejo, at most 1 MiB, signed with the secret from `GET /v1/apps/{app_name}/secret`. A push to the branch that the app follows starts a deployment. An event that is delivered again has no further effect.',
    params: Type.Object({
      app_name: text({
        description: 'Id of the app, as in its `webhook_url`. A name is accepted, too: the secret identifies the app.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    }),
    // 401 is also the response for an unknown app, so that the caller cannot find out which apps exist.
    fails: [401],
  },
  receiveScmWebhook: {
    ...webhook,
    path: '/v1/webhooks/scm',
    proof: 'signature with the secret of the GitHub App over the body',
    answer: ScmEventEffect,
    summary: 'Receive an event of the GitHub App',
    description:
      'Receives an event of the GitHub App, at most 5 MiB, for every app that is connected to the repository: pushes, pull requests, and changes of repositories and of installations of the GitHub App. Responds with 404 if this installation of Mote has no GitHub App.',
    // Maximum size of the body: the largest push that GitHub documents (2,048 commits) takes about 3 MB.
    maxBytes: 5 << 20,
    fails: [401, 404],
  },
})
