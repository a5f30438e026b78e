/**
 * The one door to PostgreSQL. Statements are named and live in each feature's `store.ts`, so the server plans them once
 * per connection (an unprepared four-table join is eight times slower) and a reader sees every query in one place.
 *
 * `Db` runs single statements on a few pipelined connections that never hold a transaction; `tx` takes a connection of
 * its own from a pool. A statement on `db` inside a `tx` callback is therefore not part of that transaction.
 */
export interface Statement<Row> {
  /** Unique over the program, `<feature>.<what>`; the server-side name of the prepared statement. */
  readonly name: string
  /** Columns are always listed: `SELECT *` in a prepared statement fails after the next migration. */
  readonly text: string
  /** It is short, and so many that are asked in the same turn of the event loop go along on its connection, after it. */
  readonly leads?: number
  readonly row?: Row
}

export function statement<Row = never>(
  name: string,
  text: string,
  options: Pick<Statement<Row>, 'leads'> = {},
): Statement<Row> {
  return { name, text, ...options }
}

/** What a parameter may be; arrays become PostgreSQL arrays, plain objects jsonb. */
export type Param =
  | string
  | number
  | bigint
  | boolean
  | Date
  | null
  | Buffer
  | readonly Param[]
  | { [key: string]: unknown }

export interface Sql {
  rows<Row>(statement: Statement<Row>, params?: readonly Param[]): Promise<Row[]>
  /** The only row. Zero or several rows are a bug of the caller and throw. */
  one<Row>(statement: Statement<Row>, params?: readonly Param[]): Promise<Row>
  /** The first row, if there is one. */
  maybe<Row>(statement: Statement<Row>, params?: readonly Param[]): Promise<Row | undefined>
  /** For INSERT, UPDATE, DELETE: how many rows it touched. */
  run(statement: Statement<unknown>, params?: readonly Param[]): Promise<number>
}

declare const insideTransaction: unique symbol

/** A transaction (READ COMMITTED). Functions that must be part of their caller's transaction ask for this type. */
export interface Tx extends Sql {
  readonly [insideTransaction]: true
  /**
   * For a last write whose result nobody needs: sent together with COMMIT, in the order of the calls, without a round trip of
   * its own. Where it fails, the transaction is rolled back and `Db.tx` rejects with its error.
   */
  atCommit(statement: Statement<unknown>, params: readonly Param[]): void
  /** Runs `work`; where it rejects, all that it wrote or left for COMMIT is undone, and the rejection passed on. */
  savepoint<T>(work: () => Promise<T>): Promise<T>
}

/** Runs a statement whose result nobody needs: at COMMIT where there is one. */
export async function runLast(sql: Sql | Tx, statement: Statement<unknown>, params: readonly Param[]): Promise<void> {
  if ('atCommit' in sql) sql.atCommit(statement, params)
  else await sql.run(statement, params)
}

export interface Db extends Sql {
  /** Commits when `work` resolves, rolls back when it rejects. Retries nothing. */
  tx<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** LISTEN on a channel; survives reconnects (calls `onEvent` once after each, since events may have been missed). */
  listen(channel: string, onEvent: (payload: string) => void): Promise<{ stop(): Promise<void> }>
  /**
   * Runs `work` if this process gets the session-level advisory lock, and holds it meanwhile; undefined otherwise.
   * The signal aborts when the connection that holds the lock is lost.
   */
  withLock<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined>
  /** See answering.ts. @throws DbUnavailable `connect` when the server hangs meanwhile */
  whileAnswering<T>(work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}
