/**
 * The only access to PostgreSQL. Statements are named and live in each feature's `store.ts`, so that the server plans
 * them once per connection (an unprepared four-table join is eight times slower) and all queries of a feature are in
 * one place.
 * `Db` runs single statements on a few pipelined connections that never hold a transaction; `tx` takes a separate
 * connection from a pool. A statement on `db` inside a `tx` callback is therefore not part of that transaction.
 */
export interface Statement<Row> {
  /**
   * Name of the statement, unique in the program: `<feature>.<what>`. The prepared statement on the server has the same
   * name.
   */
  readonly name: string
  /** The SQL text. Always lists the columns, because a prepared `SELECT *` fails after the next migration. */
  readonly text: string
  /**
   * Declares the statement to be fast: up to this many statements that are issued after it in the same event-loop turn
   * are sent on its connection, so that they arrive together.
   */
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

/** Values for parameters. Arrays become PostgreSQL arrays, plain objects jsonb. */
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
  /** Returns the only row. @throws Error (a bug in the caller) for no row or several rows */
  one<Row>(statement: Statement<Row>, params?: readonly Param[]): Promise<Row>
  /** Returns the first row; undefined if there is none. */
  maybe<Row>(statement: Statement<Row>, params?: readonly Param[]): Promise<Row | undefined>
  /** Runs an INSERT, UPDATE or DELETE, and returns the number of affected rows. */
  run(statement: Statement<unknown>, params?: readonly Param[]): Promise<number>
}

declare const insideTransaction: unique symbol

/** A transaction (READ COMMITTED). Functions that must be part of their caller's transaction take this type. */
export interface Tx extends Sql {
  readonly [insideTransaction]: true
  /**
   * Adds a write at the end of the transaction, whose result is not needed. It is sent together with COMMIT, in the
   * order of the calls, without an extra round trip. If it fails, the transaction is rolled back and `Db.tx` rejects
   * with its error.
   */
  atCommit(statement: Statement<unknown>, params: readonly Param[]): void
  /**
   * Runs `work` in a savepoint. If `work` rejects, its writes, including those for COMMIT, are rolled back, and the
   * error is rethrown.
   */
  savepoint<T>(work: () => Promise<T>): Promise<T>
}

/** Runs a statement whose result is not needed. In a transaction, the statement is sent with COMMIT. */
export async function runLast(sql: Sql | Tx, statement: Statement<unknown>, params: readonly Param[]): Promise<void> {
  if ('atCommit' in sql) sql.atCommit(statement, params)
  else await sql.run(statement, params)
}

export interface Db extends Sql {
  /** Runs `work` in a transaction: commits when it resolves, rolls back when it rejects. Does not retry. */
  tx<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * LISTENs on a channel. Survives reconnects, and calls `onEvent` once after each, because events may have been
   * missed.
   */
  listen(channel: string, onEvent: (payload: string) => void): Promise<{ stop(): Promise<void> }>
  /**
   * Runs `work` while this program holds the advisory lock; returns undefined if the lock is already held, by this
   * program or another one. The signal passed to `work` aborts when the database session that holds all locks of this
   * program is lost.
   */
  withLock<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined>
  /** Like `withLock`, but in a database session of its own, which pg_stat_activity shows as `mote-lock <name>`. */
  withLockedSession<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined>
  /** Runs `work`, but gives up when the server hangs, as answering.ts describes. @throws DbUnavailable `connect` */
  whileAnswering<T>(work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}
