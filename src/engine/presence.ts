/** Holds the lock that marks a runner as alive, and takes the lock again whenever its database session is lost. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Db } from '../db/db.ts'
import { backoffMs } from '../lib/backoff.ts'
import { newId } from '../lib/ids.ts'
import { type EngineStatements, runnerLock } from './statements.ts'

export interface PresenceOptions {
  readonly db: Db
  readonly log: Logger
  readonly statements: EngineStatements
  /** Kinds of workflows that the runner runs; stored so that other programs can query them (see `someRunnerLacks`). */
  readonly kinds: readonly string[]
  readonly random: () => number
  /** The signal aborts when the runner has stopped. The abort releases the runner's lock. */
  readonly gone: AbortSignal
  /** Called with the runner's id when the lock is taken, and with undefined when it is lost. */
  readonly onChange: (id: string | undefined) => void
}

/**
 * Pauses between attempts to take the lock. A broken database session usually reconnects at once; while the database is
 * down, the pauses increase.
 */
const backoff = { baseMs: 200, capMs: 5_000 }

/**
 * Takes the lock, and again after each loss, with a new runner id: other runners may already have taken over the
 * workflows that the runner had claimed under its previous id.
 * @returns `held` settles with the first attempt; `ended` resolves after `gone` has aborted
 */
export function bePresent(options: PresenceOptions): { readonly held: Promise<void>; readonly ended: Promise<void> } {
  const first = Promise.withResolvers<void>()
  return { held: first.promise, ended: keepTrying(options, first) }
}

async function keepTrying(options: PresenceOptions, first: PromiseWithResolvers<void>): Promise<void> {
  const { db, log, statements, kinds, random, gone, onChange } = options
  for (let failures = 0; !gone.aborted; failures++) {
    const id = newId()
    try {
      await db.withLockedSession(runnerLock(id), async lost => {
        await db.run(statements.announce, [id, kinds])
        failures = 0
        onChange(id)
        first.resolve()
        await aborted([lost, gone])
      })
    } catch (error) {
      const err = error instanceof Error ? error.message : String(error)
      log.warn({ err }, 'the runner cannot hold its lock; retrying')
      // `reject` only has an effect if the first attempt has not settled yet.
      first.reject(error)
    }
    onChange(undefined)
    await delay(backoffMs(failures, random(), backoff), undefined, { signal: gone }).catch(() => undefined)
  }
}

function aborted(signals: readonly AbortSignal[]): Promise<void> {
  const any = AbortSignal.any([...signals])
  return new Promise(resolve => {
    if (any.aborted) resolve()
    else any.addEventListener('abort', () => resolve(), { once: true })
  })
}
