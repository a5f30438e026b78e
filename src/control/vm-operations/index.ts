/** Operations on running VMs: snapshots, volumes, migration, reducing memory (balloon), commands. */
import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { feature } from '../http/operation.ts'
import { vmOperations } from '../vms/index.ts'
import { balloonHandlers } from './balloon.ts'
import { execHandlers } from './exec.ts'
import { forkHandlers } from './fork.ts'
import { migrationHandlers } from './migrations.ts'
import { snapshotHandlers } from './snapshots.ts'
import { volumeHandlers } from './volumes.ts'

export { startFork } from './fork.ts'
export { holdSnapshot } from './hold.ts'
export { requestRestore } from './restore.ts'
export const runtimeFeature = (deps: Deps & { readonly live: LiveStats }) =>
  feature(vmOperations, {
    ...snapshotHandlers(deps),
    ...forkHandlers(deps),
    ...migrationHandlers(deps),
    ...balloonHandlers(deps),
    ...execHandlers(deps),
    ...volumeHandlers(deps),
  })
