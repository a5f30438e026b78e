/**
 * Counts the statements that a program sends to PostgreSQL and the bytes that it sends over the bus. Unlike times,
 * these numbers do not depend on the load of the computer.
 */
import type { Bus } from '../src/bus/bus.ts'
import type { Db, Sql, Statement, Tx } from '../src/db/db.ts'

export interface Counts {
  /** Number of statements by name, including `BEGIN` and `COMMIT`. */
  readonly statements: Map<string, number>
  /** Total size of the messages on the bus as JSON. */
  busBytes: number
  reset(): void
}

export function counting(db: Db, bus: Bus): { readonly db: Db; readonly bus: Bus; readonly counts: Counts } {
  const statements = new Map<string, number>()
  const counts: Counts = {
    statements,
    busBytes: 0,
    reset() {
      statements.clear()
      counts.busBytes = 0
    },
  }
  const count = (name: string) => statements.set(name, (statements.get(name) ?? 0) + 1)
  const sql = (from: Sql): Sql => ({
    rows: (statement, params) => (note(statement), from.rows(statement, params)),
    one: (statement, params) => (note(statement), from.one(statement, params)),
    maybe: (statement, params) => (note(statement), from.maybe(statement, params)),
    run: (statement, params) => (note(statement), from.run(statement, params)),
  })
  const note = ({ name }: Statement<unknown>) => count(name)
  const weigh = (data: unknown) => {
    counts.busBytes += Buffer.byteLength(JSON.stringify(data))
  }
  return {
    counts,
    db: {
      ...db,
      ...sql(db),
      tx: work =>
        db.tx(tx => {
          count('BEGIN')
          count('COMMIT')
          const counted: Tx = { ...tx, ...sql(tx) }
          return work(counted)
        }),
    },
    bus: {
      subscribe: (subject, handler, options) => bus.subscribe(subject, handler, options),
      serve: (subject, handler, options) => bus.serve(subject, handler, options),
      connected: () => bus.connected(),
      ping: timeoutMs => bus.ping(timeoutMs),
      close: () => bus.close(),
      publish(subject, data, options) {
        weigh(data)
        return bus.publish(subject, data, options)
      },
      async request(subject, data, options) {
        weigh(data)
        const answer = await bus.request(subject, data, options)
        weigh(answer)
        return answer
      },
    },
  }
}

/** Formats the total number of statements and the most frequent ones. */
export function describeCounts(counts: Counts, per: number): string {
  const total = [...counts.statements.values()].reduce((sum, n) => sum + n, 0)
  const most = [...counts.statements].toSorted((a, b) => b[1] - a[1]).slice(0, 8)
  const parts = most.map(([name, n]) => `${name} ${(n / per).toFixed(2)}`).join(', ')
  return `${(total / per).toFixed(2)} statements (${parts}), ${(counts.busBytes / per).toFixed(0)} bytes on the bus`
}
