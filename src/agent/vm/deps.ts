import type { Logger } from 'pino'
import type { VmObserved } from '../../contract/agent.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Driver, SnapshotSource } from '../hypervisor/driver.ts'
import type { VmLog } from '../logs/vm-log.ts'
import type { Volumes } from '../volume/volumes.ts'
import type { Guard } from '../net/net.ts'
import type { HealthTiming } from './health.ts'
import type { VmRecord } from './record.ts'

/** What an actor works with. */
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
  /** @throws StepError `snapshot_missing`, `snapshot_damaged` */
  readonly snapshot: (snapshotId: string) => Promise<Omit<SnapshotSource, 'renew'>>
  /** The snapshot is here, or is being taken. */
  readonly hasSnapshot: (snapshotId: string) => boolean
  /** Resolves once the driver may boot: its proof is done. */
  readonly ready: Promise<void>
  readonly saveRecord: (record: VmRecord) => Promise<void>
  readonly onObserved: (observed: VmObserved) => void
  /**
   * The VM has given everything back; removes what is left of it on disk.
   * @returns false when it is wanted again meanwhile, and nothing was removed
   */
  readonly bury: () => Promise<boolean>
}
