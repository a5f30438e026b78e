/**
 * Transactions with few round trips: BEGIN is sent with the first statement, COMMIT with the last ones. On a busy host
 * each round trip waits for the scheduler twice, while the transaction holds its row locks.
 */
import pg from 'pg'
import { type Param, type Statement, type Tx, statement } from './db.ts'
import { DbUnavailable, fromDriver } from './errors.ts'
import { type Send, sqlOf } from './sql.ts'

interface Query {
  readonly name: string
  readonly text: string
  readonly values: Param[]
}
type Result = pg.QueryResult

const queryOf = ({ name, text }: Statement<unknown>, params: readonly Param[]): Query => ({
  name,
  text,
  values: [...params],
})

const begin: Query = { name: 'mote.begin', text: 'BEGIN', values: [] }
// COMMIT is a prepared statement like all others, because the driver sends only prepared statements together.
const commit: Query = { name: 'mote.commit', text: 'COMMIT', values: [] }
const savepoint = {
  set: statement('mote.savepoint', 'SAVEPOINT mote'),
  release: statement('mote.release', 'RELEASE SAVEPOINT mote'),
  rollback: statement('mote.rollback', 'ROLLBACK TO SAVEPOINT mote'),
}
/** Connections on which the statement BEGIN has been prepared. */
const prepared = new WeakSet<pg.ClientBase>()

/**
 * Sends BEGIN and the statement as one unit of the extended protocol (with one Sync at its end: PostgreSQL manual,
 * 55.2.3), so that the server skips the statement if BEGIN fails. Sent as two queries, the statement would then run
 * outside a transaction.
 */
async function beginWith(client: pg.ClientBase, query: Query): Promise<Result> {
  if (!prepared.has(client)) {
    await client.query(begin)
    prepared.add(client)
    return client.query(query)
  }
  const results = new Promise<unknown>((resolve, reject) => {
    const unit = new pg.Query(query, (error: Error | undefined, found: unknown) =>
      error ? reject(error) : resolve(found),
    )
    const submit = unit.submit.bind(unit)
    unit.submit = connection => {
      connection.stream.cork()
      connection.bind({ statement: begin.name, values: [] }, true)
      connection.execute({}, true)
      const refused = submit(connection)
      connection.stream.uncork()
      return refused
    }
    client.query(unit)
  })
  // Process the last result here instead of in the query's callback: an exception in the callback would crash the
  // process, and the driver calls it a second time after an invalid parameter.
  return lastOf(await results)
}

/** Returns the statement's result. The driver returns an array of two: the results of BEGIN and of the statement. */
function lastOf(results: unknown): Result {
  if (!Array.isArray(results) || results.length !== 2) throw new Error('BUG: BEGIN returned no separate result')
  return results[1]
}

/**
 * Runs `work` in a transaction: commits when it resolves, rolls back when it rejects.
 * @param client with `pipeline: true`
 * @param onClean called when the connection can be reused, even if this transaction failed
 */
export async function runTransaction<T>(
  client: pg.ClientBase,
  work: (tx: Tx) => Promise<T>,
  onClean: () => void,
): Promise<T> {
  const transaction = createTransaction(client)
  const value = await work(transaction.tx).catch(async (error: unknown) => {
    await transaction.rollback().then(onClean, () => undefined)
    throw error
  })
  await transaction.commit()
  onClean()
  return value
}

interface Last {
  readonly statement: Statement<unknown>
  readonly params: readonly Param[]
}

type State =
  /** The transaction is new: no statement was sent yet. */
  | { readonly is: 'new' }
  /**
   * BEGIN was sent and is pending. Other statements wait for its result, because they might run outside the
   * transaction.
   */
  | { readonly is: 'beginning'; readonly began: Promise<unknown> }
  | { readonly is: 'open' }
  /** The transaction's first statement, or the BEGIN before it, failed. */
  | { readonly is: 'failed'; readonly error: unknown }

function createTransaction(client: pg.ClientBase) {
  let state: State = { is: 'new' }
  /** True once the transaction is ending or has ended. A statement sent later would run outside of it. */
  let over = false
  const under = new Set<Promise<unknown>>()
  const last: Last[] = []
  const late = (name: string) => new Error(`BUG: ${name} was sent after the end of its transaction`)

  async function first(query: Query): Promise<Result> {
    const began = beginWith(client, query)
    state = { is: 'beginning', began }
    try {
      const result = await began
      state = { is: 'open' }
      return result
    } catch (error) {
      state = { is: 'failed', error }
      throw error
    }
  }

  async function sendNow(statement: Statement<unknown>, params: readonly Param[]): Promise<Result> {
    const query = queryOf(statement, params)
    try {
      if (state.is === 'new') return await first(query)
      if (state.is === 'beginning') await state.began
      if (state.is === 'failed') throw state.error
      return await client.query(query)
    } catch (error) {
      throw fromDriver(error, statement.name)
    }
  }

  const send: Send = (statement, params) => {
    if (over) return Promise.reject(late(statement.name))
    const sent = sendNow(statement, params)
    under.add(sent)
    const forget = () => void under.delete(sent)
    sent.then(forget, forget)
    return sent
  }

  // The cast is the only place that creates a branded Tx. The brand exists only for the compiler.
  const tx = {
    ...sqlOf(send),
    atCommit(statement: Statement<unknown>, params: readonly Param[]): void {
      if (over) throw late(statement.name)
      last.push({ statement, params })
    },
    async savepoint<T>(work: () => Promise<T>): Promise<T> {
      const before = last.length
      await send(savepoint.set, [])
      try {
        const value = await work()
        await send(savepoint.release, [])
        return value
      } catch (error) {
        last.length = before
        await send(savepoint.rollback, [])
        await send(savepoint.release, [])
        throw error
      }
    },
  } as Tx

  return {
    tx,
    async commit(): Promise<void> {
      const sent = last.map(({ statement, params }) => send(statement, params))
      over = true
      // Wait until BEGIN has succeeded or failed. The code below reports a failure.
      if (state.is === 'new' || state.is === 'beginning') await Promise.allSettled(under)
      if (state.is === 'new') return
      if (state.is === 'failed' && sent.length === 0) throw swallowed(state.error)
      const ended = sendCommit(client)
      for (const result of await Promise.allSettled(sent)) {
        if (result.status === 'fulfilled') continue
        const end: unknown = await ended.then(
          () => undefined,
          (error: unknown) => error,
        )
        // If the statement and COMMIT both failed because the connection was lost, the outcome is unknown.
        throw result.reason instanceof DbUnavailable && end instanceof DbUnavailable ? end : result.reason
      }
      await ended
    },
    /** Rolls back. @throws Error when the connection must not be reused */
    async rollback(): Promise<void> {
      over = true
      if (state.is === 'beginning') await Promise.allSettled(under)
      if (state.is === 'failed' && lostStatements(state.error)) throw state.error
      if (state.is !== 'new') await client.query('ROLLBACK')
    },
  }
}

/** SQLSTATE 26000: a connection pooler or DISCARD ALL has dropped the prepared statements of this connection. */
const lostStatements = (error: unknown) => error instanceof pg.DatabaseError && error.code === '26000'

/**
 * Returns the error for a transaction whose caller swallowed the error of a statement. The caller must not assume that
 * its other writes were committed.
 */
const swallowed = (cause?: unknown) =>
  new Error('BUG: a statement failed inside the transaction and its error was swallowed', { cause })

async function sendCommit(client: pg.ClientBase): Promise<void> {
  let command: string
  try {
    command = (await client.query(commit)).command
  } catch (error) {
    const mapped = fromDriver(error, 'COMMIT')
    if (!(mapped instanceof DbUnavailable)) throw mapped
    throw new DbUnavailable('commit_unknown', 'the connection was lost during COMMIT', { cause: error })
  }
  // PostgreSQL reports ROLLBACK instead of COMMIT for a transaction with a failed statement.
  if (command === 'ROLLBACK') throw swallowed()
}
