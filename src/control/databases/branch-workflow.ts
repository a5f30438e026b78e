/**
 * The workflow of a database branch: creates its VM and disks, waits until a client can connect, stops and starts it
 * for changes that need a restart, restores it, and finally removes it.
 */
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import type { Tx } from '../../db/db.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import { startDeletingApp } from '../apps/index.ts'
import { removeDeployment, setPaused } from '../deployments/index.ts'
import { abandonRestore, beginKeeping, finishRewinding, keepingProgress, undoProgress } from './restoring.ts'
import type { DatabaseDeps } from './deps.ts'
import { startVm } from './provision.ts'
import { reportFailed, reportReady } from './notices.ts'
import { reportPassword } from './password.ts'
import { knowsPassword } from './rules.ts'
import { doesAnswer, isAtRest } from './probe.ts'
import { type Storage, storages } from './storage.ts'
import type { Branch } from './store.ts'
import * as restores from './restore-store.ts'
import * as store from './store.ts'
import { dropBackupCopy } from './volume-storage.ts'
import * as snapshots from './snapshot-store.ts'

/** The first start of a branch from backups may replay a day of log. */
const startLimitMs = minutes(30)
/** Hosts report changes; this poll checks that a client can still connect. */
const lookAgainMs = seconds(15)
const tryAgainMs = minutes(5)
/** How long the client in the VM waits for a starting server before it gives up. */
const startingMs = seconds(5)

const requestedRestore = (b: Branch) => b.restores > b.restored
const requestedHalt = (b: Branch) =>
  requestedRestore(b) || b.databaseWant === 'suspended' || b.database.revision > b.revision

export const branchWorkflow = (deps: DatabaseDeps) => {
  const storageOf: (b: Branch) => Storage = storages(deps)

  return workflow<Branch>()({
    kind: 'database',
    edges: {
      preparing: ['starting', 'failing', 'deleting'],
      starting: ['running', 'halting', 'failing', 'deleting'],
      running: ['standing', 'halting', 'failing', 'deleting'],
      standing: ['starting', 'deleting'],
      halting: ['starting', 'keeping', 'resting', 'deleting'],
      keeping: ['rewinding', 'replaying', 'starting', 'deleting'],
      rewinding: ['starting', 'deleting'],
      replaying: ['running', 'undoing', 'deleting'],
      undoing: ['starting', 'failing', 'deleting'],
      resting: ['starting', 'keeping', 'deleting'],
      failing: ['halting', 'deleting'],
      deleting: [],
    },
    load: id => store.branch(deps.db, id),
    preempt: b => (b.want === 'deleted' || b.databaseWant === 'deleted' ? 'deleting' : undefined),
    phases: {
      async preparing(step): Promise<Next<'starting' | 'failing'>> {
        const progress = await storageOf(step.subject).make(step.subject, step.signal)
        if (progress.state === 'failed') return go('failing', fail(step.subject, progress.error))
        if (progress.state === 'waiting') return wait(progress.ms ?? seconds(1), progress.write)
        return go('starting', progress.write, startLimitMs)
      },

      async starting({ subject: b, enteredAt, now, signal }): Promise<Next<'running' | 'halting' | 'failing'>> {
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
      },

      async running({ subject: b, signal }): Promise<Next<'standing' | 'halting' | 'failing'>> {
        if (requestedHalt(b)) return go('halting')
        const failed = failureOf(b)
        if (failed) return go('failing', fail(b, failed))
        if (b.healthy && !knowsPassword(b)) return wait(seconds(1), await reportPassword(deps, b, signal))
        const answers = b.healthy && (await doesAnswer(deps, b, signal))
        if (answers && b.kind === 'spare' && (await isAtRest(deps, b, signal)))
          return go('standing', tx => quiesce(tx, b, true))
        const settled = answers && b.kind !== 'spare'
        return wait(settled ? lookAgainMs : seconds(1), tx => recordAnswer(tx, b, answers))
      },

      /** The spare branch is ready and paused until a user claims it; a claimed one resumes without a start. */
      async standing({ subject: b }): Promise<Next<'starting'>> {
        if (b.kind === 'spare') return wait(minutes(10))
        return go('starting', tx => quiesce(tx, b, false), startLimitMs)
      },

      /** Shuts the VM down cleanly, which releases its disks. */
      async halting({ subject: b }): Promise<Next<'starting' | 'keeping' | 'resting'>> {
        if (b.deployments.length > 0)
          return wait(seconds(1), async tx => {
            await store.answers(tx, b.id, false)
            for (const { id } of b.deployments) await removeDeployment(tx, id)
          })
        if (requestedRestore(b)) return go('keeping', tx => beginKeeping(tx, b), minutes(30))
        if (b.databaseWant === 'suspended') return go('resting')
        return go('starting', tx => startVm(deps, tx, b), startLimitMs)
      },

      /** Retains the current state as a snapshot. If that fails, the restore is abandoned. */
      async keeping({ subject: b }): Promise<Next<'rewinding' | 'replaying' | 'starting'>> {
        const progress = await keepingProgress(deps, b)
        if (progress.state === 'waiting') return wait(500, progress.write)
        if (progress.state === 'failed')
          return go('starting', tx => abandonRestore(deps, tx, b, progress.error), startLimitMs)
        if (b.restoreMoment !== null) return go('replaying', tx => startVm(deps, tx, b), startLimitMs)
        return go('rewinding', tx => storageOf(b).beginRewind(tx, b), minutes(30))
      },

      async rewinding({ subject: b, signal }) {
        const progress = await storageOf(b).rewind(b, signal)
        if (progress.state === 'waiting') return wait(500, progress.write)
        if (progress.state === 'failed')
          return go('starting', tx => abandonRestore(deps, tx, b, progress.error), startLimitMs)
        return go('starting', tx => finishRewinding(deps, tx, b, progress.write), startLimitMs)
      },

      /** The VM fetches the backup before the instant and replays the log up to it. */
      async replaying({ subject: b, enteredAt, now, signal }): Promise<Next<'running' | 'undoing'>> {
        const late =
          now.getTime() - enteredAt.getTime() > startLimitMs ? 'The restore did not finish in time.' : undefined
        const failed = failureOf(b) ?? late
        if (failed) return go('undoing', tx => store.fail(tx, b.id, failed).then(() => undefined), minutes(30))
        if (!b.healthy) return wait(seconds(2))
        if (!(await doesAnswer(deps, b, signal, startingMs))) return wait(100)
        return go('running', async tx => {
          await restores.endRestore(tx, b.id)
          await recordAnswer(tx, b, true)
        })
      },

      /** The restore to the instant failed: return to the retained state, so that no work is lost. */
      async undoing({ subject: b }): Promise<Next<'starting' | 'failing'>> {
        if (b.deployments.length > 0)
          return wait(seconds(1), async tx => {
            for (const { id } of b.deployments) await removeDeployment(tx, id)
          })
        const progress = await undoProgress(deps, b)
        if (progress.state === 'waiting') return wait(500, progress.write)
        if (progress.state === 'failed') return go('failing', fail(b, progress.error))
        return go('starting', tx => abandonRestore(deps, tx, b, b.error ?? 'unknown reason'), startLimitMs)
      },

      async resting({ subject: b }): Promise<Next<'starting' | 'keeping'>> {
        if (requestedRestore(b)) return go('keeping', tx => beginKeeping(tx, b), minutes(30))
        if (b.databaseWant === 'running') return go('starting', tx => startVm(deps, tx, b), startLimitMs)
        return wait(minutes(10))
      },

      /**
       * A branch that worked before is retried automatically; one that never did is retried after a change by the user.
       */
      async failing({ subject: b, enteredAt, now }) {
        if (b.appId === null) return wait(minutes(10))
        const leftMs = enteredAt.getTime() + tryAgainMs - now.getTime()
        if (requestedHalt(b) || (b.readyAt !== null && leftMs <= 0)) return go('halting')
        return wait(b.readyAt !== null ? leftMs : minutes(10))
      },

      async deleting({ subject: b, signal }) {
        const { appId } = b
        if (b.hasApp && appId !== null) return wait(seconds(1), tx => startDeletingApp(tx, appId))
        const progress = await storageOf(b).release(b, signal)
        if (progress.state === 'waiting') return wait(seconds(1), progress.write)
        return done(async tx => {
          await store.lockForRemoval(tx, b.databaseId)
          await snapshots.removeOf(tx, b.id)
          await store.removeBranch(tx, b.id)
          await store.removeWhenEmpty(tx, b.databaseId)
          await poke(tx, 'project', b.projectId)
        })
      },
    },
  })
}

/** The error of the newest deployment, if it failed. */
const failureOf = (b: Branch): string | undefined => {
  const newest = b.deployments.at(-1)
  return newest?.outcome === 'failed' ? (newest.error ?? 'Its VM failed.') : undefined
}

const fail = (b: Branch, error: string) => async (tx: Tx) => {
  await store.fail(tx, b.id, error)
  await reportFailed(tx, b, error)
}

async function quiesce(tx: Tx, b: Branch, still: boolean): Promise<void> {
  // Updates the branch before its deployments, in the same order as a claim.
  await store.answers(tx, b.id, false)
  for (const { id } of b.deployments) await setPaused(tx, id, still ? 'paused' : 'running')
}

async function recordAnswer(tx: Tx, b: Branch, answers: boolean): Promise<void> {
  const changed = await store.answers(tx, b.id, answers)
  if (changed?.first) await reportReady(tx, b)
}
