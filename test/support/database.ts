import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { describe, inject } from 'vitest'
import { connectDb } from '../../src/db/connect.ts'
import type { Db } from '../../src/db/db.ts'
import { testLog } from './log.ts'
import { databaseUrl, type PostgresChoice, templateName } from './global-setup.ts'

export type { PostgresChoice }

/** Result of `startPrivateServer`. */
export interface PrivateServer {
  readonly adminUrl: string
}

export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly db: Db
  /** Drops the database even if clients are connected. Idempotent. */
  drop(): Promise<void>
}

/** `MOTE_TEST_PG=installed` runs every test that does not choose a server on the installed PostgreSQL. */
export function defaultPostgres(): PostgresChoice {
  return process.env['MOTE_TEST_PG'] === 'installed' ? 'installed' : 'embedded'
}

/**
 * A fresh database with all migrations applied, cloned from the template. Drop it in `afterAll`, or use `await using`.
 */
export async function testDatabase(which: PostgresChoice | PrivateServer = defaultPostgres()): Promise<TestDatabase> {
  if (typeof which === 'object') return openDatabase(which.adminUrl, templateName)
  const server = serverOf(which)
  if (server.broken !== undefined) throw new Error(server.broken)
  return openDatabase(server.adminUrl, templateName)
}

/** A fresh, empty database, for tests of the migrations themselves. */
export async function emptyDatabase(which: PostgresChoice = defaultPostgres()): Promise<TestDatabase> {
  return openDatabase(serverOf(which).adminUrl, 'template0')
}

/**
 * Runs a suite once per server; if a server is not installed, the suite is skipped and its title says what to install.
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

/** Connects through another database, because a database with connections can be neither cloned nor dropped. */
async function asAdmin(adminUrl: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
