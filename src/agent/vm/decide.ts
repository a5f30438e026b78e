import type { VmWant } from '../../contract/agent.ts'
import type { MigrationFact } from './migration.ts'

/** What is true of a VM on this host. */
export interface VmFacts {
  readonly want: VmWant
  readonly runningVm: 'none' | 'running' | 'paused'
  readonly workload: 'running' | 'exited'
  /** The running machine was booted from what the wish says. */
  readonly current: boolean
  /** It crashed under this generation: nothing is tried again before a new one. */
  readonly crashed: boolean
  readonly restartsLeft: boolean
  readonly migration: MigrationFact
  /** A snapshot of it is there whose volumes have to stay as they are: it does not run on. */
  readonly kept: boolean
  /** Balloon and volumes are as wished. */
  readonly adjusted: boolean
  /** No mount and no volume of an earlier process is left: counts where there is no machine. */
  readonly cleared: boolean
}

/**
 * The one next step. `boot` includes image, disk and network; `restart` starts the workload again in the same machine; `clear`
 * takes away what an ended process had open.
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

/** Level-triggered: only the facts count, not how they came about. */
export function decide(facts: VmFacts): VmAction {
  const { runningVm, migration } = facts
  if (facts.want === 'absent') return runningVm === 'none' ? 'release' : 'stop'
  const atRest = runningVm === 'none' && !facts.cleared ? 'clear' : 'rest'
  if (facts.want === 'stopped' || facts.crashed || migration === 'left') return runningVm === 'none' ? atRest : 'stop'
  if (facts.kept) return atRest
  if (runningVm === 'none') return migration === 'incoming' ? 'receive' : 'boot'
  // Before anything else is done to a machine that may be half-way elsewhere.
  if (migration === 'outgoing') return 'hand-over'
  if (!facts.current) return 'stop'
  if (facts.workload === 'exited') return facts.restartsLeft ? 'restart' : 'crash'
  if (facts.want === 'paused') return runningVm === 'paused' ? 'rest' : 'pause'
  if (runningVm === 'paused') return 'resume'
  return facts.adjusted ? 'rest' : 'adjust'
}

/** Neither ends nor begins a process: what was asked of the running one comes first. */
export const canWait = (action: VmAction): boolean => action === 'rest' || action === 'adjust' || action === 'clear'
