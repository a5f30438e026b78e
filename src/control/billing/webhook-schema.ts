import { operations } from '../http/operation.ts'
import { oneOf, resource } from '../http/types.ts'
import { maxEventBytes, webhook } from '../http/webhook.ts'

const BillingEventEffect = resource(
  'BillingEventEffect',
  {
    status: oneOf(['applied', 'ignored', 'duplicate'], {
      description:
        '`applied`: subscriptions and plans are up to date with it. `ignored`: outdated, or not about this installation. `duplicate`: received before.',
    }),
  },
  { description: 'What an event of the billing provider did.' },
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
      'Takes a signed event of the billing provider, at most 1 MiB, and updates subscriptions and plans. The answer is 401 for a wrong signature and 404 without a billing provider.',
    fails: [401, 404],
  },
})
