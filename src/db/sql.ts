/** Implements the four ways to run a statement (`rows`, `one`, `maybe`, `run`) over any `send` function. */
import type pg from 'pg'
import type { Param, Sql, Statement } from './db.ts'

export type Send = (statement: Statement<unknown>, params: readonly Param[]) => Promise<pg.QueryResult>

export function sqlOf(send: Send): Sql {
  return {
    rows: async (statement, params = []) => (await send(statement, params)).rows,
    one: async (statement, params = []) => {
      const { rows } = await send(statement, params)
      if (rows.length !== 1)
        throw new Error(`BUG: statement ${statement.name} returned ${rows.length} rows instead of one`)
      return rows[0]
    },
    maybe: async (statement, params = []) => (await send(statement, params)).rows[0],
    run: async (statement, params = []) => (await send(statement, params)).rowCount ?? 0,
  }
}
