/** The address of the installation's own image registry, if there is one. */
import { ownRegistryHost } from '../vms/index.ts'
import type { ControlConfig } from '../base/config.ts'

export interface OwnRegistry {
  /** Host and port of the registry, as in image references. */
  readonly host: string
  readonly plainHttp: boolean
}

export function ownRegistry(config: Pick<ControlConfig, 'registryUrl'>): OwnRegistry | undefined {
  const host = ownRegistryHost(config)
  return host === undefined ? undefined : { host, plainHttp: config.registryUrl.startsWith('http://') }
}
