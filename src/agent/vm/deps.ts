import type { Logger } from 'pino'
import type { VmObserved } from '../../contract/agent.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Driver, SnapshotSource } from '../hypervisor/driver.ts'
import type { VmLog } from '../logs/vm-log.ts'
import type { Volumes } from '../volume/volumes.ts'
import type { Guard } from '../net/net.ts'
import type { HealthTiming } from './health.ts'
import type { VmRecord } from './record.ts'

/** The dependencies of a VM's actor. */
export interface ActorDeps {
  readonly driver: Driver
  readonly dir: string
  readonly vmLog: VmLog
  readonly log: Logger
  readonly bootSlots: Semaphore
  readonly health: HealthTiming
  readonly stopGraceMs: number
  readonly volumes: Pick<Volumes, 'open' | 'close' | 'adopt' | 'copy' | 'rewind' | 'leaving' | 'arriving'>
  readonly guard: Guard
  /** Returns a complete snapshot to start from. @throws StepError `snapshot_missing`, `snapshot_damaged` */
  readonly snapshot: (snapshotId: string) => Promise<Omit<SnapshotSource, 'renew'>>
  /** True if this host has the snapshot or is taking it. */
  readonly hasSnapshot: (snapshotId: string) => boolean
  /** Resolves when the hypervisor's test boot has finished, so that VMs may boot. */
  readonly ready: Promise<void>
  readonly saveRecord: (record: VmRecord) => Promise<void>
  readonly onObserved: (observed: VmObserved) => void
  /**
   * Removes the files of a VM that has released all other resources.
   * @returns false, and removes nothing, if a newer desired state wants the VM again
   */
  readonly bury: () => Promise<boolean>
}
