/** The phases of a database branch that is being restored. */
import { type Next, go, type Step, wait } from '../../engine/workflow.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { removeDeployment } from '../deployments/index.ts'
import { type BranchDeps, fail, failureOf, recordAnswer, startingMs, startLimitMs } from './branch-phases.ts'
import { doesAnswer } from './probe.ts'
import { startVm } from './provision.ts'
import { abandonRestore, finishRewinding, keepingProgress, undoProgress } from './restoring.ts'
import type { Branch } from './store.ts'
import * as restores from './restore-store.ts'
import * as branchStore from './branch-store.ts'

/** The phase that retains the current state of the branch as a snapshot. If that fails, the restore is abandoned. */
export async function keeping(
  deps: BranchDeps,
  { subject: b }: Step<Branch>,
): Promise<Next<'rewinding' | 'replaying' | 'starting'>> {
  const progress = await keepingProgress(deps, b)
  if (progress.state === 'waiting') return wait(500, progress.write)
  if (progress.state === 'failed')
    return go('starting', tx => abandonRestore(deps, tx, b, progress.error), startLimitMs)
  if (b.restoreMoment !== null) return go('replaying', tx => startVm(deps, tx, b), startLimitMs)
  return go('rewinding', tx => deps.storageOf(b).beginRewind(tx, b), minutes(30))
}

export async function rewinding(deps: BranchDeps, { subject: b, signal }: Step<Branch>): Promise<Next<'starting'>> {
  const progress = await deps.storageOf(b).rewind(b, signal)
  if (progress.state === 'waiting') return wait(500, progress.write)
  if (progress.state === 'failed')
    return go('starting', tx => abandonRestore(deps, tx, b, progress.error), startLimitMs)
  return go('starting', tx => finishRewinding(deps, tx, b, progress.write), startLimitMs)
}

/**
 * The phase in which the VM restores the last backup before the requested instant, and replays the log up to that
 * instant.
 */
export async function replaying(
  deps: BranchDeps,
  { subject: b, enteredAt, now, signal }: Step<Branch>,
): Promise<Next<'running' | 'undoing'>> {
  const late = now.getTime() - enteredAt.getTime() > startLimitMs ? 'The restore did not finish in time.' : undefined
  const failed = failureOf(b) ?? late
  if (failed) return go('undoing', tx => branchStore.fail(tx, b.id, failed).then(() => undefined), minutes(30))
  if (!b.healthy) return wait(seconds(2))
  if (!(await doesAnswer(deps, b, signal, startingMs))) return wait(100)
  return go('running', async tx => {
    await restores.endRestore(tx, b.id)
    await recordAnswer(tx, b, true)
  })
}

/**
 * The phase after a failed restore to an instant. It returns the branch to the retained state, so that no data is lost.
 */
export async function undoing(deps: BranchDeps, { subject: b }: Step<Branch>): Promise<Next<'starting' | 'failing'>> {
  if (b.deployments.length > 0)
    return wait(seconds(1), async tx => {
      for (const { id } of b.deployments) await removeDeployment(tx, id)
    })
  const progress = await undoProgress(deps, b)
  if (progress.state === 'waiting') return wait(500, progress.write)
  if (progress.state === 'failed') return go('failing', fail(b, progress.error))
  return go('starting', tx => abandonRestore(deps, tx, b, b.error ?? 'unknown reason'), startLimitMs)
}
