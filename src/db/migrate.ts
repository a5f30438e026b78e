/**
 * Numbered, forward-only migrations: `migrations/0001-what.sql`, each applied once, in order, in its own transaction.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { clientConfig } from './driver.ts'
import { fromDriver } from './errors.ts'

export interface MigrateOptions {
  readonly url: string
  /** Directory with the .sql files; default: the program's own. */
  readonly directory?: URL
}

export interface Migration {
  readonly number: number
  /** File name of the migration, without `.sql`. */
  readonly name: string
  readonly sql: string
  /** SHA-256 of the migration's file, in hex. */
  readonly checksum: string
}

export interface MigrationStatus {
  readonly name: string
  /**
   * State `unknown`: the migration was applied by a newer version of the program, and this version does not have its
   * file.
   */
  readonly state: 'applied' | 'pending' | 'edited' | 'unknown'
  readonly appliedAt: Date | undefined
}

interface AppliedRow {
  readonly number: number
  readonly name: string
  readonly checksum: string
  readonly applied_at: Date
}

const ownDirectory = new URL('./migrations/', import.meta.url)
const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/

/**
 * Applies the missing migrations and returns their names. Safe to run concurrently: runs are serialized. A database
 * that is newer than the program is left unchanged, because old and new versions run side by side during an upgrade.
 * @throws Error when an applied file was edited or a new one sorts before an applied one; the database is then
 * unchanged.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const files = await readMigrations(options.directory ?? ownDirectory)
  return withClient(options.url, async client => {
    // Use a session-level lock: it is held over several transactions, and released if the process is killed.
    await client.query("SELECT pg_advisory_lock(hashtextextended('mote.migrate', 0))")
    await client.query(
      `CREATE TABLE IF NOT EXISTS schema_migration (
         number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
         applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`,
    )
    const applied = await readApplied(client)
    const pending = files.filter(file => !applied.some(row => row.number === file.number))
    refuseRewrittenHistory(files, pending, applied)
    for (const file of pending) await apply(client, file)
    return pending.map(file => file.name)
  })
}

export async function migrationStatus(options: MigrateOptions): Promise<MigrationStatus[]> {
  const files = await readMigrations(options.directory ?? ownDirectory)
  const applied = await withClient(options.url, async client => {
    const { rows } = await client.query("SELECT to_regclass('schema_migration') IS NOT NULL AS made")
    return rows[0]?.made === true ? readApplied(client) : []
  })
  const known = files.map((file): MigrationStatus => {
    const row = applied.find(({ number }) => number === file.number)
    const state = row === undefined ? 'pending' : row.checksum === file.checksum ? 'applied' : 'edited'
    return { name: file.name, state, appliedAt: row?.applied_at }
  })
  const unknown = applied.filter(row => !files.some(file => file.number === row.number))
  return [...known, ...unknown.map(row => ({ name: row.name, state: 'unknown' as const, appliedAt: row.applied_at }))]
}

async function readMigrations(directory: URL): Promise<Migration[]> {
  const names = (await readdir(directory)).filter(name => name.endsWith('.sql')).sort()
  const files = await Promise.all(names.map(name => readMigration(directory, name)))
  for (const [index, file] of files.entries()) {
    const before = files[index - 1]
    if (before?.number === file.number)
      throw new Error(`two migrations have the same number: ${before.name} and ${file.name}`)
  }
  return files
}

async function readMigration(directory: URL, name: string): Promise<Migration> {
  const number = Number(fileName.exec(name)?.[1] ?? 0)
  if (number === 0) throw new Error(`${name} is not a valid migration name: it must look like 0007-add-volumes.sql`)
  const sql = await readFile(new URL(name, directory), 'utf8')
  return { number, name: name.slice(0, -'.sql'.length), sql, checksum: createHash('sha256').update(sql).digest('hex') }
}

async function readApplied(client: pg.Client): Promise<AppliedRow[]> {
  const text = 'SELECT number, name, checksum, applied_at FROM schema_migration ORDER BY number'
  return (await client.query<AppliedRow>(text)).rows
}

function refuseRewrittenHistory(
  files: readonly Migration[],
  pending: readonly Migration[],
  applied: readonly AppliedRow[],
) {
  for (const row of applied) {
    const file = files.find(({ number }) => number === row.number)
    if (file !== undefined && file.checksum !== row.checksum) {
      throw new Error(
        `migration ${file.name} was edited after it had been applied: restore the file and write a new migration`,
      )
    }
  }
  const newest = Math.max(0, ...files.filter(file => !pending.includes(file)).map(({ number }) => number))
  const late = pending.find(({ number }) => number < newest)
  if (late !== undefined) {
    throw new Error(
      `migration ${late.name} sorts before number ${newest}, which is applied already: give it the next free number`,
    )
  }
}

async function apply(client: pg.Client, file: Migration): Promise<void> {
  await client.query('BEGIN')
  try {
    await client.query(file.sql)
    await client.query('INSERT INTO schema_migration (number, name, checksum) VALUES ($1, $2, $3)', [
      file.number,
      file.name,
      file.checksum,
    ])
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined)
    throw fromDriver(error, `migration ${file.name}${lineOf(error, file.sql)}`)
  }
}

/** Returns the line number of an error in the file, from PostgreSQL's position, which counts characters from 1. */
function lineOf(error: unknown, sql: string): string {
  const position = error instanceof pg.DatabaseError ? Number(error.position ?? 0) : 0
  return position === 0 ? '' : ` line ${sql.slice(0, position).split('\n').length}`
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  // Disable the statement timeout: waiting for the lock and building an index may take long.
  const client = new pg.Client({ ...clientConfig(url, 'mote-migrate'), statement_timeout: 0 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } catch (error) {
    throw fromDriver(error, 'db.migrate')
  } finally {
    await client.end().catch(() => undefined)
  }
}
