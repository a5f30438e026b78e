/** The lock that says that a runner lives: held for as long as it does, and taken again whenever its session is lost. */
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
  /** Kinds of machines that the runner runs. */
  readonly kinds: readonly string[]
  readonly random: () => number
  /** Ends it. */
  readonly gone: AbortSignal
  /** Called with the runner's id once the lock is held, and with undefined once it is lost. */
  readonly onChange: (id: string | undefined) => void
}

/** A session that breaks is back at once as a rule; a database that is away is asked ever less often. */
const backoff = { baseMs: 200, capMs: 5_000 }

/**
 * The id is another one after each loss: what was claimed under a lost one may be taken over by others.
 * @returns `held` settles with the first try; `ended` resolves after `gone`
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
      await db.withLock(runnerLock(id), async lost => {
        await db.run(statements.announce, [id, kinds])
        failures = 0
        onChange(id)
        first.resolve()
        await aborted([lost, gone])
      })
    } catch (error) {
      const err = error instanceof Error ? error.message : String(error)
      log.warn({ err }, 'the runner cannot hold its lock; trying again')
      // Only settles the first try.
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
