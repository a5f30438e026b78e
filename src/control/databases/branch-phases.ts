/** The phases of a database branch, except those of a restore. */
import { type Next, done, go, type Step, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import type { Tx } from '../../db/db.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { startDeletingApp } from '../apps/index.ts'
import { removeDeployment, setPaused } from '../deployments/index.ts'
import { beginKeeping } from './restoring.ts'
import type { DatabaseDeps } from './deps.ts'
import { startVm } from './provision.ts'
import { reportFailed, reportReady } from './notices.ts'
import { reportPassword } from './password.ts'
import { knowsPassword } from './rules.ts'
import { doesAnswer, isSettled } from './probe.ts'
import type { Storage } from './storage.ts'
import type { Branch } from './store.ts'
import * as branchStore from './branch-store.ts'
import * as store from './store.ts'
import { dropBackupCopy } from './volume-storage.ts'
import * as snapshots from './snapshot-store.ts'

export interface BranchDeps extends DatabaseDeps {
  readonly storageOf: (b: Branch) => Storage
}

/** Time limit for the start of a branch. The first start of a branch from backups may replay a day of log. */
export const startLimitMs = minutes(30)
/** Poll interval of a running branch: hosts report changes, but not whether a client can still connect. */
const answerPollMs = seconds(15)
const retryAfterMs = minutes(5)
/** How long a client in the VM waits for a database server that is starting. */
export const startingMs = seconds(5)

export const requestedRestore = (b: Branch) => b.restores > b.restored
const requestedHalt = (b: Branch) =>
  requestedRestore(b) || b.databaseWant === 'suspended' || b.database.revision > b.revision

export async function preparing(deps: BranchDeps, step: Step<Branch>): Promise<Next<'starting' | 'failing'>> {
  const progress = await deps.storageOf(step.subject).make(step.subject, step.signal)
  if (progress.state === 'failed') return go('failing', fail(step.subject, progress.error))
  if (progress.state === 'waiting') return wait(progress.ms ?? seconds(1), progress.write)
  return go('starting', progress.write, startLimitMs)
}

export async function starting(
  deps: BranchDeps,
  { subject: b, enteredAt, now, signal }: Step<Branch>,
): Promise<Next<'running' | 'halting' | 'failing'>> {
  if (requestedHalt(b)) return go('halting')
  const failed = failureOf(b)
  if (failed) return go('failing', fail(b, failed))
  if (now.getTime() - enteredAt.getTime() > startLimitMs)
    return go('failing', fail(b, b.error ?? 'The database did not accept connections in time.'))
  if (!b.healthy) return wait(seconds(2))
  if (!(await doesAnswer(deps, b, signal, startingMs))) return wait(100)
  return go('running', async tx => {
    await recordAnswer(tx, b, true)
    if (b.fromMoment !== null) await dropBackupCopy(deps, tx, b)
  })
}

export async function running(
  deps: BranchDeps,
  { subject: b, signal }: Step<Branch>,
): Promise<Next<'standing' | 'halting' | 'failing'>> {
  if (requestedHalt(b)) return go('halting')
  const failed = failureOf(b)
  if (failed) return go('failing', fail(b, failed))
  if (b.healthy && !knowsPassword(b)) return wait(seconds(1), await reportPassword(deps, b, signal))
  const answers = b.healthy && (await doesAnswer(deps, b, signal))
  if (answers && b.kind === 'spare' && (await isSettled(deps, b, signal)))
    return go('standing', tx => setBranchPaused(tx, b, true))
  const settled = answers && b.kind !== 'spare'
  return wait(settled ? answerPollMs : seconds(1), tx => recordAnswer(tx, b, answers))
}

/**
 * The phase of a spare branch that accepts connections. Its VM is paused until a user claims the branch, and then
 * resumed, which needs no start.
 */
export async function standing({ subject: b }: Step<Branch>): Promise<Next<'starting'>> {
  if (b.kind === 'spare') return wait(minutes(10))
  return go('starting', tx => setBranchPaused(tx, b, false), startLimitMs)
}

/** The phase that shuts the VM down cleanly, which releases its disks. */
export async function halting(
  deps: BranchDeps,
  { subject: b }: Step<Branch>,
): Promise<Next<'starting' | 'keeping' | 'resting'>> {
  if (b.deployments.length > 0)
    return wait(seconds(1), async tx => {
      await branchStore.answers(tx, b.id, false)
      for (const { id } of b.deployments) await removeDeployment(tx, id)
    })
  if (requestedRestore(b)) return go('keeping', tx => beginKeeping(tx, b), minutes(30))
  if (b.databaseWant === 'suspended') return go('resting')
  return go('starting', tx => startVm(deps, tx, b), startLimitMs)
}

export async function resting(deps: BranchDeps, { subject: b }: Step<Branch>): Promise<Next<'starting' | 'keeping'>> {
  if (requestedRestore(b)) return go('keeping', tx => beginKeeping(tx, b), minutes(30))
  if (b.databaseWant === 'running') return go('starting', tx => startVm(deps, tx, b), startLimitMs)
  return wait(minutes(10))
}

/**
 * The phase after a failure. A branch that has accepted connections before is started again automatically; any other
 * branch is started again after a change by the user.
 */
export async function failing({ subject: b, enteredAt, now }: Step<Branch>): Promise<Next<'halting'>> {
  if (b.appId === null) return wait(minutes(10))
  const leftMs = enteredAt.getTime() + retryAfterMs - now.getTime()
  if (requestedHalt(b) || (b.readyAt !== null && leftMs <= 0)) return go('halting')
  return wait(b.readyAt !== null ? leftMs : minutes(10))
}

export async function deleting(deps: BranchDeps, { subject: b, signal }: Step<Branch>): Promise<Next<never>> {
  const { appId } = b
  if (b.hasApp && appId !== null) return wait(seconds(1), tx => startDeletingApp(tx, appId))
  const progress = await deps.storageOf(b).release(b, signal)
  if (progress.state === 'waiting') return wait(seconds(1), progress.write)
  return done(async tx => {
    await store.lockForRemoval(tx, b.databaseId)
    await snapshots.removeOf(tx, b.id)
    await branchStore.removeBranch(tx, b.id)
    await store.removeWhenEmpty(tx, b.databaseId)
    await poke(tx, 'project', b.projectId)
  })
}

/** Returns the error of the newest deployment, if it failed. */
export const failureOf = (b: Branch): string | undefined => {
  const newest = b.deployments.at(-1)
  return newest?.outcome === 'failed' ? (newest.error ?? 'The VM of the database failed.') : undefined
}

export const fail = (b: Branch, error: string) => async (tx: Tx) => {
  await branchStore.fail(tx, b.id, error)
  await reportFailed(tx, b, error)
}

export async function recordAnswer(tx: Tx, b: Branch, answers: boolean): Promise<void> {
  const changed = await branchStore.answers(tx, b.id, answers)
  if (changed?.first) await reportReady(tx, b)
}

async function setBranchPaused(tx: Tx, b: Branch, pause: boolean): Promise<void> {
  // The row of the branch is updated before those of its deployments, in the same order as in a claim of a spare, which
  // prevents deadlocks.
  await branchStore.answers(tx, b.id, false)
  for (const { id } of b.deployments) await setPaused(tx, id, pause ? 'paused' : 'running')
}
