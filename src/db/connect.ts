import pg from 'pg'
import type { Logger } from 'pino'
import { createAutocommit } from './autocommit.ts'
import type { Db, Param, Sql, Statement, Tx } from './db.ts'
import { clientConfig, connectTimeoutMs } from './driver.ts'
import { DbUnavailable, fromDriver } from './errors.ts'
import { Listener } from './listener.ts'
import { withAdvisoryLock } from './lock.ts'

export interface ConnectOptions {
  /** `postgresql://user:password@host:port/database`, or `postgresql://user@/database?host=/socket/dir`. */
  readonly url: string
  readonly log: Logger
  /** Pipelined connections for single statements; 4 saturate a Node process. */
  readonly autocommitConnections?: number
  /** Most transactions at the same time. */
  readonly txConnections?: number
}

/** Opens the database. @throws DbUnavailable `connect` when it cannot be reached now; later losses heal by themselves. */
export async function connectDb(options: ConnectOptions): Promise<Db> {
  const { url, log } = options
  const autocommit = createAutocommit(url, options.autocommitConnections ?? 4, log)
  const pool = new pg.Pool({ ...clientConfig(url, 'mote-tx'), max: options.txConnections ?? 10 })
  pool.on('error', error => log.warn({ err: error.message }, 'idle transaction connection lost'))
  const listener = new Listener(url, log)
  const close = async () => {
    await Promise.all([autocommit.close(), listener.close(), pool.end()])
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
    withLock: (name, work) => withAdvisoryLock(url, name, work),
    close: () => (closing ??= close()),
  }
}

type Query = (statement: Statement<unknown>, params: readonly Param[]) => Promise<pg.QueryResult>

function sqlOf(query: Query): Sql {
  return {
    rows: async (statement, params = []) => (await query(statement, params)).rows,
    one: async (statement, params = []) => {
      const { rows } = await query(statement, params)
      if (rows.length !== 1) throw new Error(`BUG: statement ${statement.name} gave ${rows.length} rows instead of one`)
      return rows[0]
    },
    maybe: async (statement, params = []) => (await query(statement, params)).rows[0],
    run: async (statement, params = []) => (await query(statement, params)).rowCount ?? 0,
  }
}

function txOf(client: pg.PoolClient): Tx {
  const sql = sqlOf(async (statement, params) => {
    try {
      return await client.query({ name: statement.name, text: statement.text, values: [...params] })
    } catch (error) {
      throw fromDriver(error, statement.name)
    }
  })
  // The brand of Tx exists for the compiler only: this is the one place that may claim it.
  return sql as Tx
}

async function transaction<T>(pool: pg.Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  const client = await connection(pool)
  // Without a listener a connection that breaks in the middle would end the process.
  const ignore = () => undefined
  client.on('error', ignore)
  let broken = true
  try {
    await client.query('BEGIN').catch((error: unknown) => {
      throw fromDriver(error, 'BEGIN')
    })
    const result = await work(txOf(client)).catch(async (error: unknown) => {
      broken = await client.query('ROLLBACK').then(
        () => false,
        () => true,
      )
      throw error
    })
    await commit(client)
    broken = false
    return result
  } finally {
    client.off('error', ignore)
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

async function commit(client: pg.PoolClient): Promise<void> {
  let command: string
  try {
    command = (await client.query('COMMIT')).command
  } catch (error) {
    const mapped = fromDriver(error, 'COMMIT')
    if (!(mapped instanceof DbUnavailable)) throw mapped
    throw new DbUnavailable('commit_unknown', 'the connection was lost during COMMIT', { cause: error })
  }
  // COMMIT of a transaction in which a statement failed is answered with ROLLBACK and no error: a caller that
  // swallowed that failure must not believe that its other writes were kept.
  if (command === 'ROLLBACK')
    throw new Error('BUG: a statement failed inside the transaction and its error was swallowed')
}
