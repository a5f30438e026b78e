import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { describe, inject } from 'vitest'
import { connectDb } from '../../src/db/connect.ts'
import type { Db } from '../../src/db/db.ts'
import { testLog } from './log.ts'
import { databaseUrl, type PostgresChoice, templateName } from './global-setup.ts'

export type { PostgresChoice }

/** A PostgreSQL server for one suite, as returned by `startPrivateServer`. */
export interface PrivateServer {
  readonly adminUrl: string
}

export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly db: Db
  /** Drops the database even if clients are connected. Idempotent. */
  drop(): Promise<void>
}

/**
 * Returns the server for tests that do not choose one: `MOTE_TEST_PG=installed` selects the distribution's PostgreSQL.
 */
export function defaultPostgres(): PostgresChoice {
  return process.env['MOTE_TEST_PG'] === 'installed' ? 'installed' : 'embedded'
}

/**
 * Creates a database with all migrations applied, as a clone of the template. Drop it in `afterAll`, or use `await
 * using`.
 */
export async function testDatabase(which: PostgresChoice | PrivateServer = defaultPostgres()): Promise<TestDatabase> {
  if (typeof which === 'object') return openDatabase(which.adminUrl, templateName)
  const server = serverOf(which)
  if (server.broken !== undefined) throw new Error(server.broken)
  return openDatabase(server.adminUrl, templateName)
}

/** Creates an empty database, for tests of migrations. */
export async function emptyDatabase(which: PostgresChoice = defaultPostgres()): Promise<TestDatabase> {
  return openDatabase(serverOf(which).adminUrl, 'template0')
}

/**
 * Runs a suite on both PostgreSQL servers. If one is not installed, its suite is skipped, with a title that names what
 * to install.
 */
export function describeEachPostgres(name: string, suite: (which: PostgresChoice) => void): void {
  for (const which of ['embedded', 'installed'] as const) {
    const server = inject('postgres')[which]
    if ('missing' in server) describe.skip(`${name} (${which}): skipped, ${server.missing}`, () => suite(which))
    else describe(`${name} (${which})`, () => suite(which))
  }
}

function serverOf(which: PostgresChoice) {
  const server = inject('postgres')[which]
  if ('missing' in server) throw new Error(server.missing)
  return server
}

async function openDatabase(adminUrl: string, template: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await asAdmin(adminUrl, `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`)
  const url = databaseUrl(adminUrl, name)
  const db = await connectDb({ url, log: testLog() })
  let dropping: Promise<void> | undefined
  const drop = () =>
    (dropping ??= (async () => {
      await db.close()
      await asAdmin(adminUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    })())
  return { url, db, drop, [Symbol.asyncDispose]: drop }
}

/** Runs SQL in another database, because a database with open connections can be neither cloned nor dropped. */
async function asAdmin(adminUrl: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
