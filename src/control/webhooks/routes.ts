import { createProvider, receive } from '../billing/index.ts'
import { receiveForApps, receiveFromHost, type SourceHost } from '../scm/index.ts'
import type { Deps } from '../deps.ts'
import { type Feature, feature } from '../http/operation.ts'
import { webhookOperations } from './schema.ts'

export function webhookFeature(deps: Deps, host: SourceHost | undefined): Feature {
  const provider = createProvider(deps)
  const fromHost = receiveFromHost(deps, host)
  const forApps = receiveForApps(deps)
  return feature(webhookOperations, {
    receiveBillingWebhook: {
      write: async ({ body, headers }) => {
        const apply = await receive({ ...deps, provider }, body, headers)
        return async tx => ({ status: await apply(tx) })
      },
    },
    receiveScmWebhook: {
      write: async ({ body, headers, traceparent }) => {
        const apply = await fromHost(body, headers, traceparent)
        return async tx => ({ status: await apply(tx) })
      },
    },
    receiveAppWebhook: {
      write: async ({ body, headers, params, traceparent }) => {
        const apply = await forApps(params.app_name, body, headers, traceparent)
        return async tx => ({ status: await apply(tx) })
      },
    },
  })
}
