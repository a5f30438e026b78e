import type { HypervisorFeature } from '../../contract/agent.ts'
import type { Driver } from './driver.ts'

/** What VMs may need, and whether a driver has it on this host. */
const has = {
  'raw-drives': driver => driver.showsDrives === true,
  volumes: driver => driver.capabilities.hotplugDisk,
  'encrypted-volumes': driver => driver.capabilities.hotplugDisk && driver.opensLuks === true,
  'kept-volumes': driver => driver.keepsVolumes === true,
  'moved-volumes': driver => driver.movesVolumes === true,
  'paused-moves': driver => driver.movesPaused === true,
  'moved-snapshots': driver => driver.movesSnapshots === true,
  // User networking lets nothing out, and has no rules.
  'private-network': driver => driver.network !== 'user',
} satisfies Record<HypervisorFeature, (driver: Driver) => boolean>

const all: readonly HypervisorFeature[] = [
  'raw-drives',
  'volumes',
  'encrypted-volumes',
  'private-network',
  'kept-volumes',
  'moved-volumes',
  'paused-moves',
  'moved-snapshots',
]

/** For the host's beat: the scheduler places by it. */
export const featuresOf = (driver: Driver): HypervisorFeature[] => all.filter(feature => has[feature](driver))
