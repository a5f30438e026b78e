import type { VmWant } from '../../contract/agent.ts'
import type { MigrationFact } from './migration.ts'

/** The facts about a VM on this host that determine its next step. */
export interface VmFacts {
  readonly want: VmWant
  readonly runningVm: 'none' | 'running' | 'paused'
  readonly workload: 'running' | 'exited'
  /** True if the running VM was booted with the fields of the desired spec that need a boot. */
  readonly current: boolean
  /** True if the VM crashed under its current generation. It does not start again before a newer one. */
  readonly crashed: boolean
  readonly restartsLeft: boolean
  readonly migration: MigrationFact
  /** True if a snapshot depends on the current contents of the VM's volumes, so that the VM must not run. */
  readonly kept: boolean
  /** True if firewall, balloon and volumes match the desired state. */
  readonly adjusted: boolean
  /** True if the previous process has left no mounts and no open volumes. Only relevant without a running VM. */
  readonly cleared: boolean
}

/**
 * The next step for a VM. `boot` includes image, disk and network; `restart` restarts the workload in the same VM;
 * `clear` removes the mounts and closes the volumes of a process that has exited.
 */
export type VmAction =
  | 'release'
  | 'clear'
  | 'stop'
  | 'boot'
  | 'receive'
  | 'hand-over'
  | 'restart'
  | 'crash'
  | 'pause'
  | 'resume'
  | 'adjust'
  | 'rest'

/** Decides the next step. Level-triggered: depends only on the current facts. */
export function decide(facts: VmFacts): VmAction {
  const { runningVm, migration } = facts
  if (facts.want === 'absent') return runningVm === 'none' ? 'release' : 'stop'
  const restAction = runningVm === 'none' && !facts.cleared ? 'clear' : 'rest'
  if (facts.want === 'stopped' || facts.crashed || migration === 'left')
    return runningVm === 'none' ? restAction : 'stop'
  if (facts.kept) return restAction
  if (runningVm === 'none') return migration === 'incoming' ? 'receive' : 'boot'
  // Checked before the other conditions, because the VM may be in the middle of a migration.
  if (migration === 'outgoing') return 'hand-over'
  if (!facts.current) return 'stop'
  if (facts.workload === 'exited') return facts.restartsLeft ? 'restart' : 'crash'
  if (facts.want === 'paused') return runningVm === 'paused' ? 'rest' : 'pause'
  if (runningVm === 'paused') return 'resume'
  return facts.adjusted ? 'rest' : 'adjust'
}

/** True if the step neither starts nor ends a process, so that pending jobs on the running VM run first. */
export const canWait = (action: VmAction): boolean => action === 'rest' || action === 'adjust' || action === 'clear'
