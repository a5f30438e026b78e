/**
 * Starts the minimal server for a request of the product: bare Node and node-pg, which only run the product's own SQL
 * statements.
 */
import { fork } from 'node:child_process'
import { programFlags } from '../scripts/build.mjs'
import type { Db, Param, Statement } from '../src/db/db.ts'
import { principalBySessionInProject } from '../src/control/auth/access-store.ts'
import { builtChild } from './built.ts'
import { type Floor, floorOf } from './http-load.ts'
import type { Plane } from './plane.ts'

interface Query {
  readonly name: string
  readonly text: string
  readonly values: readonly Param[]
}

export interface LeastWork {
  readonly databaseUrl: string
  readonly queries: readonly Query[]
}

class Recorded extends Error {}

/** Returns the SQL statement that a function of a store would run. */
export async function queryOf(ask: (db: Db) => Promise<unknown>): Promise<Query> {
  let query: Query | undefined
  const record = async (asked: Statement<unknown>, params: readonly Param[] = []): Promise<never> => {
    query = { name: asked.name, text: asked.text, values: params }
    throw new Recorded()
  }
  const db = { rows: record, one: record, maybe: record, run: record }
  await ask(db as unknown as Db).catch((error: unknown) => {
    if (!(error instanceof Recorded)) throw error
  })
  if (query === undefined) throw new Error('it asked nothing')
  return query
}

/**
 * Returns the statement with which the control plane authenticates a request: it looks up the session of this JWT, and
 * the account's role in its default project.
 */
export function whoAsks(jwt: string): Promise<Query> {
  const claims = JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())
  const session = { sessionId: claims.sid, userId: claims.sub, epoch: claims.epoch }
  return queryOf(db => principalBySessionInProject(db, session, { id: null, slug: null }))
}

export async function startLeast(plane: Plane, queries: readonly Query[]): Promise<Floor> {
  const child = fork(await builtChild('least-child.ts'), { execArgv: [...programFlags] })
  child.send({ databaseUrl: plane.databaseUrl, queries } satisfies LeastWork)
  return floorOf(child)
}
