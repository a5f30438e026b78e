/** Wraps a database, and records whether statements have written anything that an invariant reads. */
import type { Db, Sql, Statement, Tx } from '../../src/db/db.ts'
import { engineStatements } from '../../src/engine/statements.ts'

export interface Watched {
  readonly db: Db
  /** True if something was written since the last call. */
  changed(): boolean
}

/** Statements that write only leases and times of workflows, which no invariant reads, so they do not count. */
const silent: ReadonlySet<string> = new Set([
  ...[engineStatements.wait, engineStatements.fail, engineStatements.poke, engineStatements.release].map(
    one => one.name,
  ),
  'simulation.claim',
])

const reads = (statement: Statement<unknown>) => /^\s*SELECT\b/.test(statement.text) || silent.has(statement.name)
/**
 * True if the row count shows whether the statement has written anything. It does not for a statement that begins with
 * WITH, which may write in a subquery and return no rows.
 */
const isPlain = (statement: Statement<unknown>) => /^\s*(INSERT|UPDATE|DELETE)\b/.test(statement.text)

export function watched(db: Db): Watched {
  let written = true
  const sqlOf = (from: Sql): Sql => {
    const note = (statement: Statement<unknown>, touched: number) => {
      if (!reads(statement) && !(isPlain(statement) && touched === 0)) written = true
    }
    return {
      async rows(statement, params) {
        const rows = await from.rows(statement, params)
        note(statement, /\bRETURNING\b/.test(statement.text) ? rows.length : 1)
        return rows
      },
      async one(statement, params) {
        const row = await from.one(statement, params)
        note(statement, 1)
        return row
      },
      async maybe(statement, params) {
        const row = await from.maybe(statement, params)
        note(statement, row === undefined && /\bRETURNING\b/.test(statement.text) ? 0 : 1)
        return row
      },
      async run(statement, params) {
        const touched = await from.run(statement, params)
        note(statement, touched)
        return touched
      },
    }
  }
  return {
    db: { ...db, ...sqlOf(db), tx: work => db.tx(tx => work({ ...tx, ...sqlOf(tx) } satisfies Tx)) },
    changed() {
      const was = written
      written = false
      return was
    },
  }
}
