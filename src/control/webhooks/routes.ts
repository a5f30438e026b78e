import { createProvider, receive } from '../billing/index.ts'
import type { Deps } from '../deps.ts'
import { type Feature, feature } from '../http/operation.ts'
import { webhookOperations } from './schema.ts'

export function webhookFeature(deps: Deps): Feature {
  const provider = createProvider(deps)
  return feature(webhookOperations, {
    receiveBillingWebhook: {
      write: async ({ body, headers }) => {
        const apply = receive({ ...deps, provider }, body, headers)
        return async tx => ({ status: await apply(tx) })
      },
    },
  })
}
