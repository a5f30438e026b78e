import { operations } from '../http/operation.ts'
import { oneOf, resource } from '../http/types.ts'
import { maxEventBytes, webhook } from '../http/webhook.ts'

const BillingEventEffect = resource(
  'BillingEventEffect',
  {
    status: oneOf(['applied', 'ignored', 'duplicate'], {
      description:
        '`applied`: the event was applied to subscriptions and plans. `ignored`: the event is outdated, or does not concern this installation. `duplicate`: the event was received before.',
    }),
  },
  { description: 'Effect of an event from the billing provider.' },
)

export const billingWebhookOperations = operations({
  receiveBillingWebhook: {
    ...webhook,
    path: '/v1/webhooks/billing',
    proof: 'signature of the billing provider over the body',
    answer: BillingEventEffect,
    maxBytes: maxEventBytes,
    summary: 'Receive a billing event',
    description:
      'Receives a signed event of the billing provider, at most 1 MiB, and updates subscriptions and plans. Responds with 401 if the signature is wrong, and with 404 if no billing provider is configured.',
    fails: [401, 404],
  },
})
