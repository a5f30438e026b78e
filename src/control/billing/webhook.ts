import type { Deps } from '../base/deps.ts'
import { type Feature, feature } from '../http/operation.ts'
import { receive } from './receive.ts'
import { createProvider } from './providers.ts'
import { billingWebhookOperations } from './webhook-schema.ts'

export function billingWebhookFeature(deps: Deps): Feature {
  const provider = createProvider(deps)
  return feature(billingWebhookOperations, {
    receiveBillingWebhook: {
      write: async ({ body, headers }) => {
        const apply = await receive({ ...deps, provider }, body, headers)
        return async tx => ({ status: await apply(tx) })
      },
    },
  })
}
