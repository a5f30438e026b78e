/** The installation's own registry, if there is one. */
import { registryHost } from '../../lib/registry-host.ts'
import type { ControlConfig } from '../base/config.ts'

export interface OwnRegistry {
  /** As image references name it. */
  readonly host: string
}

export function ownRegistry({ registryUrl }: Pick<ControlConfig, 'registryUrl'>): OwnRegistry | undefined {
  return registryUrl === '' ? undefined : { host: registryHost(new URL(registryUrl).host) }
}
