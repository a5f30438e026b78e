import type { Socket } from 'node:net'
import pg from 'pg'
import { clientConfig } from './driver.ts'
import { DbUnavailable, fromDriver } from './errors.ts'

/**
 * Time limit for taking a lock, after which the session counts as lost: a working server grants or refuses an advisory
 * lock at once.
 */
const answerMs = 10_000

type Work<T> = (signal: AbortSignal) => Promise<T>

/**
 * Runs `work` while a database session of its own holds the advisory lock `name`; returns undefined if another session
 * holds it. pg_stat_activity shows the session as `mote-lock <name>`.
 */
export async function withLockedSession<T>(url: string, name: string, work: Work<T>): Promise<T | undefined> {
  const client = new pg.Client(clientConfig(url, `mote-lock ${name}`.slice(0, 63)))
  const lost = new AbortController()
  const onLoss = () => lost.abort(lossOf(name))
  client.on('error', onLoss)
  client.on('end', onLoss)
  try {
    return (await lockIn(client, name)) ? await work(lost.signal) : undefined
  } finally {
    // Ending the session releases the lock. End it also if the lock was refused, or each attempt would leak a session.
    await end(client)
  }
}

async function lockIn(client: pg.Client, name: string): Promise<boolean> {
  try {
    await client.connect()
    return await tryLock(client, name)
  } catch (error) {
    throw fromDriver(error, 'db.lock')
  }
}

/**
 * Holds the advisory locks of this program in one database session, opened for the first lock and kept open: the server
 * needs some milliseconds of CPU time for each new session, and the sweeps of a control plane take several locks a
 * second.
 */
export class SharedLocks {
  readonly #url: string
  readonly #sockets: Set<Socket>
  /**
   * Names of the locks that this program holds. PostgreSQL would grant them a second time, because advisory locks are
   * re-entrant in a session.
   */
  readonly #held = new Map<string, AbortController>()
  #client: Promise<pg.Client> | undefined
  /** The database client of the session. Already set while it connects, unlike the result of `#client`. */
  #open: pg.Client | undefined
  readonly #answerLimitMs: number
  #closed = false

  constructor(url: string, sockets: Set<Socket>, answerLimitMs = answerMs) {
    this.#answerLimitMs = answerLimitMs
    this.#url = url
    this.#sockets = sockets
  }

  /**
   * Runs `work` while this program holds the lock; returns undefined if this program or another one already holds it.
   */
  async withLock<T>(name: string, work: Work<T>): Promise<T | undefined> {
    if (this.#closed) throw new DbUnavailable('closed', 'the database connections of this program were closed')
    if (this.#held.has(name)) return undefined
    const lost = new AbortController()
    this.#held.set(name, lost)
    try {
      this.#client ??= this.#connect()
      const client = await this.#client
      if (!(await this.#onlyWhileSafe(client, () => tryLock(client, name)))) return undefined
      try {
        return await work(lost.signal)
      } finally {
        if (!lost.signal.aborted) await this.#onlyWhileSafe(client, () => unlock(client, name)).catch(() => undefined)
      }
    } finally {
      this.#held.delete(name)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    const client = await this.#client?.catch(() => undefined)
    if (client) await end(client)
  }

  /**
   * Ends the session, and with it every lock, when the query fails: it is then unknown which locks the session holds.
   */
  async #onlyWhileSafe<T>(client: pg.Client, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      this.#lose(client)
      void end(client)
      throw fromDriver(error, 'db.lock')
    }
  }

  /**
   * Aborts all work under the locks of this session. Only the first call for a session has an effect, because later
   * calls may come after the next session was opened.
   */
  #lose(client: pg.Client): void {
    if (this.#open !== client) return
    this.#open = undefined
    this.#client = undefined
    for (const [name, lost] of this.#held) lost.abort(lossOf(name))
  }

  async #connect(): Promise<pg.Client> {
    const config = clientConfig(this.#url, 'mote-locks', this.#sockets)
    const client = new pg.Client({ ...config, pipeline: true, query_timeout: this.#answerLimitMs })
    client.on('error', () => this.#lose(client))
    client.on('end', () => this.#lose(client))
    this.#open = client
    try {
      return await client.connect()
    } catch (error) {
      this.#lose(client)
      throw fromDriver(error, 'db.lock')
    }
  }
}

const end = (client: pg.Client) => client.end().catch(() => undefined)

const lossOf = (name: string) => new DbUnavailable('connection_lost', `the lock ${name} was lost with its connection`)

async function tryLock(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>({
    name: 'db.lock',
    text: 'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS held',
    values: [name],
  })
  return rows[0]?.held === true
}

async function unlock(client: pg.Client, name: string): Promise<void> {
  const text = 'SELECT pg_advisory_unlock(hashtextextended($1, 0))'
  await client.query({ name: 'db.unlock', text, values: [name] })
}
