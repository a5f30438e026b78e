import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import { whileAnswering } from './answering.ts'
import { createAutocommit } from './autocommit.ts'
import type { Db, Tx } from './db.ts'
import { clientConfig, connectTimeoutMs } from './driver.ts'
import { DbUnavailable } from './errors.ts'
import { Listener } from './listener.ts'
import { SharedLocks, withLockedSession } from './lock.ts'
import { sqlOf } from './sql.ts'
import { runTransaction } from './transaction.ts'

export interface ConnectOptions {
  /**
   * URL of the server: `postgresql://user:password@host:port/database`, or
   * `postgresql://user@/database?host=/socket/dir`.
   */
  readonly url: string
  readonly log: Logger
  /** Number of pipelined connections for single statements. Four connections saturate a Node process. */
  readonly autocommitConnections?: number
  /** Maximum number of concurrent transactions. */
  readonly txConnections?: number
}

/**
 * Time after which `close` destroys the sockets instead of waiting for the server, because a hung server does not close
 * its sessions.
 */
const closeLimitMs = 1_000

/**
 * Connects to the database. @throws DbUnavailable `connect` when the server is unreachable now; later disconnects are
 * repaired automatically.
 */
export async function connectDb(options: ConnectOptions): Promise<Db> {
  const { url, log } = options
  const sockets = new Set<Socket>()
  const autocommit = createAutocommit(url, options.autocommitConnections ?? 4, log, sockets)
  const pool = new pg.Pool({
    ...clientConfig(url, 'mote-tx', sockets),
    pipeline: true,
    max: options.txConnections ?? 10,
  })
  // Without this listener, a session that the server closes between two statements, or right after sign-in, would crash
  // the process.
  pool.on('connect', client => client.on('error', () => undefined))
  pool.on('error', error => log.warn({ err: error.message }, 'idle transaction connection lost'))
  const listener = new Listener(url, log, sockets)
  const locks = new SharedLocks(url, sockets)
  const close = async () => {
    const closed = Promise.all([autocommit.close(), listener.close(), locks.close(), pool.end()])
    const late = new AbortController()
    const limit = delay(closeLimitMs, undefined, { signal: late.signal }).then(
      () => sockets.forEach(socket => socket.destroy()),
      () => undefined,
    )
    await closed.finally(() => late.abort())
    await limit
  }
  try {
    await autocommit.query({ name: 'db.ping', text: 'SELECT 1' }, [])
  } catch (error) {
    await close()
    throw error
  }
  let closing: Promise<void> | undefined
  return {
    ...sqlOf((statement, params) => autocommit.query(statement, params)),
    tx: work => transaction(pool, work),
    listen: (channel, onEvent) => listener.listen(channel, onEvent),
    withLock: (name, work) => locks.withLock(name, work),
    withLockedSession: (name, work) => withLockedSession(url, name, work),
    whileAnswering: work => whileAnswering(url, work),
    close: () => (closing ??= close()),
  }
}

async function transaction<T>(pool: pg.Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const client = await connection(pool)
  let broken = true
  try {
    return await runTransaction(client, work, () => {
      broken = false
    })
  } finally {
    client.release(broken)
  }
}

async function connection(pool: pg.Pool): Promise<pg.PoolClient> {
  try {
    return await pool.connect()
  } catch (error) {
    if (pool.totalCount >= pool.options.max && pool.idleCount === 0) {
      const message = `no free transaction connection within ${connectTimeoutMs} ms; shorten transactions or raise txConnections`
      throw new DbUnavailable('pool_exhausted', message, { cause: error })
    }
    const message = error instanceof Error ? error.message : String(error)
    throw new DbUnavailable('connect', `cannot connect to the database: ${message}`, { cause: error })
  }
}
