/** A database that says whether anything in it that an invariant could see has changed. */
import type { Db, Sql, Statement, Tx } from '../../src/db/db.ts'
import { engineStatements } from '../../src/engine/statements.ts'

export interface Watched {
  readonly db: Db
  /** True when something was written since the last question. */
  changed(): boolean
}

/** They touch leases and times of machines, which no invariant looks at. */
const silent: ReadonlySet<string> = new Set([
  ...[engineStatements.wait, engineStatements.fail, engineStatements.poke, engineStatements.release].map(
    one => one.name,
  ),
  'simulation.claim',
])

const reads = (statement: Statement<unknown>) => /^\s*SELECT\b/.test(statement.text) || silent.has(statement.name)
/** What begins with WITH may write without an answer. */
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
