/** The hypervisors that a simulated host offers, with the capabilities of the real drivers. */
import type { Capabilities, HypervisorFeature, HypervisorName } from '../../src/contract/agent.ts'

export interface SimOffer {
  readonly name: HypervisorName
  readonly emulated?: boolean
  readonly capabilities: Capabilities
  readonly features: readonly HypervisorFeature[]
}

const abilities = { pause: true, snapshot: true, hotplugDisk: true } as const

/** gVisor: stop-and-copy instead of live migration, no balloon, no encrypted volumes. */
export const simGvisor: SimOffer = {
  name: 'gvisor',
  capabilities: { ...abilities, balloon: false, migrate: 'stop-and-copy' },
  features: ['raw-drives', 'volumes', 'kept-volumes', 'moved-snapshots', 'private-network'],
}

export const simQemu: SimOffer = {
  name: 'qemu',
  capabilities: { ...abilities, balloon: true, migrate: 'live' },
  features: [
    ...(['raw-drives', 'volumes', 'encrypted-volumes', 'kept-volumes', 'moved-volumes', 'paused-moves'] as const),
    ...(['moved-snapshots', 'private-network'] as const),
  ],
}

/** Returns the offer of a simulated hypervisor whose capabilities the test chooses. */
export const simFake = (
  migrate: Capabilities['migrate'],
  {
    movesVolumes,
    movesPaused,
    movesSnapshots,
  }: Readonly<Record<'movesVolumes' | 'movesPaused' | 'movesSnapshots', boolean>>,
): SimOffer => ({
  name: 'fake',
  capabilities: { ...abilities, balloon: true, migrate },
  features: [
    ...(['raw-drives', 'volumes', 'encrypted-volumes', 'private-network', 'kept-volumes'] as const),
    ...(movesVolumes ? (['moved-volumes'] as const) : []),
    ...(movesPaused ? (['paused-moves'] as const) : []),
    ...(movesSnapshots ? (['moved-snapshots'] as const) : []),
  ],
})
