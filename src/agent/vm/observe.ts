import type { DiskObserved, VmObserved, VmPut, VmState } from '../../contract/agent.ts'
import type { FirewallObserved } from '../../contract/network.ts'
import { migrationFact } from './migration.ts'
import type { VmRecord } from './record.ts'

export type Stage = 'preparing' | 'booting' | 'stopping' | 'absent' | null

export interface Observed {
  readonly desired: VmPut
  readonly record: VmRecord
  readonly stage: Stage
  readonly healthy: boolean
  readonly fault: VmObserved['error']
  readonly disks: readonly DiskObserved[]
  readonly firewall: FirewallObserved | undefined
}

/** Derives the VM's state as users see it from the stored facts. */
export function observe({ desired, record, stage, healthy, fault, disks, firewall }: Observed): VmObserved {
  const { running } = record
  return {
    vmId: desired.vmId,
    generation: desired.generation,
    state: stage ?? restingState(desired, record),
    healthy,
    endpoint: running?.prepared.endpoint ?? null,
    imageDigest: record.imageDigest,
    hypervisor: desired.spec.hypervisor,
    error: isCrashed(desired, record) && record.crash ? errorOf(record.crash) : fault,
    exitCode: record.exitCode,
    restartCount: record.restartCount,
    startedAtMs: record.startedAtMs,
    steps: record.steps,
    ...(disks.length > 0 ? { disks: [...disks] } : {}),
    ...(firewall ? { firewall } : {}),
    ...(record.migration ? { migration: record.migration } : {}),
  }
}

export function isCrashed(desired: VmPut, record: VmRecord): boolean {
  return record.crash !== null && record.crash.generation >= desired.generation
}

function restingState(desired: VmPut, record: VmRecord): VmState {
  if (record.running) return record.paused ? 'paused' : 'running'
  if (desired.want === 'absent') return 'stopping'
  if (isCrashed(desired, record)) return 'crashed'
  if (migrationFact(desired.spec, record) === 'left') return 'stopped'
  return desired.want === 'stopped' ? 'stopped' : 'preparing'
}

function errorOf({ code, message }: { code: string; message: string }) {
  return { code, message }
}
