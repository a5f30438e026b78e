/**
 * Single statements on a few pipelined connections: many statements are under way on one connection at once, which
 * measured 1.3 to 1.6 times a pool of 32 for reads. A pipelined connection must never hold a transaction, since the
 * statements of others would become part of it; transactions have a pool of their own.
 */
import type { Socket } from 'node:net'
import pg from 'pg'
import type { Logger } from 'pino'
import type { Param, Statement } from './db.ts'
import { clientConfig } from './driver.ts'
import { DbUnavailable, fromDriver } from './errors.ts'

/** One connection that is made when it is needed and made again after it broke. */
class Lane {
  readonly #url: string
  readonly #log: Logger
  readonly #sockets: Set<Socket>
  #client: Promise<pg.Client> | undefined
  #closed = false
  pending = 0

  constructor(url: string, log: Logger, sockets: Set<Socket>) {
    this.#url = url
    this.#log = log
    this.#sockets = sockets
  }

  async query<Row extends pg.QueryResultRow>(statement: Statement<unknown>, params: readonly Param[]) {
    this.pending++
    try {
      const client = await this.#connected()
      return await client.query<Row>({ name: statement.name, text: statement.text, values: [...params] })
    } catch (error) {
      throw fromDriver(error, statement.name)
    } finally {
      this.pending--
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    const client = await this.#client?.catch(() => undefined)
    await client?.end()
  }

  #connected(): Promise<pg.Client> {
    if (this.#closed) throw new DbUnavailable('closed', 'the database connections of this program were closed')
    if (this.#client === undefined) {
      const attempt = this.#connect(() => {
        // Both `error` and `end` may come for one loss, the later one after a new connection was made.
        if (this.#client === attempt) this.#client = undefined
      })
      this.#client = attempt
    }
    return this.#client
  }

  async #connect(forget: () => void): Promise<pg.Client> {
    const client = new pg.Client({ ...clientConfig(this.#url, 'mote', this.#sockets), pipeline: true })
    client.on('error', error => {
      forget()
      this.#log.warn({ err: error.message }, 'database connection lost; the next statement makes a new one')
    })
    client.on('end', forget)
    try {
      await client.connect()
      return client
    } catch (error) {
      forget()
      throw new DbUnavailable('connect', `cannot connect to the database: ${messageOf(error)}`, { cause: error })
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export interface Autocommit {
  query<Row extends pg.QueryResultRow>(
    statement: Statement<unknown>,
    params: readonly Param[],
  ): Promise<pg.QueryResult<Row>>
  close(): Promise<void>
}

/**
 * Statements go to the connection with the fewest under way, so that one slow statement delays few others. What is asked in the
 * same turn of the event loop as one that leads goes along with it: one system call, and one process that has to wake. Not
 * behind any other: it may take long, and whoever is behind it waits for that.
 */
export function createAutocommit(url: string, lanes: number, log: Logger, sockets: Set<Socket>): Autocommit {
  const all = Array.from({ length: lanes }, () => new Lane(url, log, sockets))
  /** Has one statement to send at the end of this turn, which leads, and takes so many more. */
  let open: { readonly lane: Lane; places: number } | undefined
  const choose = ({ leads = 0 }: Statement<unknown>): Lane => {
    if (open !== undefined && leads === 0) {
      const { lane } = open
      open.places--
      if (open.places === 0) open = undefined
      return lane
    }
    const lane = all.reduce((least, one) => (one.pending < least.pending ? one : least))
    open = leads > 0 && lane.pending === 0 ? { lane, places: leads } : undefined
    if (open) setImmediate(() => void (open = undefined))
    return lane
  }
  return {
    query: (statement, params) => choose(statement).query(statement, params),
    async close() {
      await Promise.all(all.map(lane => lane.close()))
    },
  }
}
