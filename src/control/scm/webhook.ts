import type { Deps } from '../base/deps.ts'
import { type Feature, feature } from '../http/operation.ts'
import type { SourceHost } from './provider.ts'
import { receiveForApps, receiveFromHost } from './receive.ts'
import { scmWebhookOperations } from './webhook-schema.ts'

export function scmWebhookFeature(deps: Deps, host: SourceHost | undefined): Feature {
  const fromHost = receiveFromHost(deps, host)
  const forApps = receiveForApps(deps)
  return feature(scmWebhookOperations, {
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
