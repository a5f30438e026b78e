import type { HypervisorFeature } from '../../contract/agent.ts'
import type { Driver } from './driver.ts'

/** For each feature that a VM may require: the test whether a driver supports it on this host. */
const has = {
  'raw-drives': driver => driver.showsDrives === true,
  volumes: driver => driver.capabilities.hotplugDisk,
  'encrypted-volumes': driver => driver.capabilities.hotplugDisk && driver.opensLuks === true,
  'kept-volumes': driver => driver.keepsVolumes === true,
  'moved-volumes': driver => driver.movesVolumes === true,
  'paused-moves': driver => driver.movesPaused === true,
  'moved-snapshots': driver => driver.movesSnapshots === true,
  // QEMU's user networking has no firewall rules and no path to the private network.
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

/** The features that the host reports in its heartbeat; the scheduler only uses hosts with the features of a VM. */
export const featuresOf = (driver: Driver): HypervisorFeature[] => all.filter(feature => has[feature](driver))
