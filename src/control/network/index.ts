/** Private networks between hosts and projects, and the security rules of apps. */
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { feature } from '../http/operation.ts'
import { meshHandlers } from './mesh-routes.ts'
import { ruleHandlers } from './rule-routes.ts'
import { networkOperations } from './schema.ts'

export { changeFirewall } from './rule-routes.ts'
export { startNetworkPublisher } from './publisher.ts'

export const networkFeature = (deps: Deps & { readonly live: LiveStats }) =>
  feature(networkOperations, { ...ruleHandlers(deps), ...meshHandlers(deps) })
