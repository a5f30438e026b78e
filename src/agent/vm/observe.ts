import type { DiskObserved, VmObserved, VmPut, VmState } from '../../contract/agent.ts'
import type { FirewallObserved } from '../../contract/network.ts'
import { migrationFact } from './migration.ts'
import type { VmRecord } from './record.ts'

export type Stage = 'preparing' | 'booting' | 'stopping' | 'absent' | null

export interface Seen {
  readonly wish: VmPut
  readonly record: VmRecord
  readonly stage: Stage
  readonly healthy: boolean
  readonly fault: VmObserved['error']
  readonly disks: readonly DiskObserved[]
  readonly firewall: FirewallObserved | undefined
}

/** The user-visible state is derived here and stored nowhere. */
export function observe({ wish, record, stage, healthy, fault, disks, firewall }: Seen): VmObserved {
  const { running } = record
  return {
    vmId: wish.vmId,
    generation: wish.generation,
    state: stage ?? restingState(wish, record),
    healthy,
    endpoint: running?.prepared.endpoint ?? null,
    imageDigest: record.imageDigest,
    hypervisor: wish.spec.hypervisor,
    error: isCrashed(wish, record) && record.crash ? errorOf(record.crash) : fault,
    exitCode: record.exitCode,
    restartCount: record.restartCount,
    startedAtMs: record.startedAtMs,
    steps: record.steps,
    ...(disks.length > 0 ? { disks: [...disks] } : {}),
    ...(firewall ? { firewall } : {}),
    ...(record.migration ? { migration: record.migration } : {}),
  }
}

export function isCrashed(wish: VmPut, record: VmRecord): boolean {
  return record.crash !== null && record.crash.generation >= wish.generation
}

function restingState(wish: VmPut, record: VmRecord): VmState {
  if (record.running) return record.paused ? 'paused' : 'running'
  if (wish.want === 'absent') return 'stopping'
  if (isCrashed(wish, record)) return 'crashed'
  if (migrationFact(wish.spec, record) === 'left') return 'stopped'
  return wish.want === 'stopped' ? 'stopped' : 'preparing'
}

function errorOf({ code, message }: { code: string; message: string }) {
  return { code, message }
}
