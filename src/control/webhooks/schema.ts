import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { Acknowledgement, text } from '../http/types.ts'

const shared = {
  method: 'POST',
  tag: 'Webhooks',
  auth: 'none',
  scope: 'write',
  project: 'none',
  rawBody: true,
  throttle: 'machine',
  bodyRequired: true,
  answer: Acknowledgement,
} as const

export const webhookOperations = operations({
  receiveBillingWebhook: {
    ...shared,
    path: '/v1/webhooks/billing',
    proof: 'signature of the billing provider over the body',
    summary: 'Events of the billing provider',
    fails: [401, 404],
  },
  receiveAppWebhook: {
    ...shared,
    path: '/v1/webhooks/scm/{app_name}',
    proof: 'signature with the secret of the app over the body, or that secret (GitLab)',
    summary: 'Events of any git host for the app whose secret signed them',
    params: Type.Object({ app_name: text({ description: 'Id of the app; or its name.' }) }),
    fails: [401, 404],
  },
  receiveScmWebhook: {
    ...shared,
    path: '/v1/webhooks/scm',
    proof: 'signature with the secret of the GitHub App over the body',
    summary: 'Events of the source host integration',
    // The largest push that GitHub describes (2,048 commits) takes about 3 MB.
    maxBytes: 5 << 20,
    fails: [401, 404],
  },
})
