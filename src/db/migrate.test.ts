import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { describeEachPostgres, emptyDatabase, testDatabase } from '../../test/support/database.ts'
import { statement } from './db.ts'
import { dumpSchema } from './dump.ts'
import { migrate, migrationStatus } from './migrate.ts'

const schemaFile = new URL('./schema.sql', import.meta.url)

const cleanups: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup()
})

/** Creates a directory of migrations, given as file names and contents. */
async function migrations(files: Readonly<Record<string, string>>) {
  const path = await mkdtemp(join(tmpdir(), 'mote-migrations-'))
  cleanups.push(() => rm(path, { recursive: true }))
  const write = (name: string, sql: string) => writeFile(join(path, name), sql)
  for (const [name, sql] of Object.entries(files)) await write(name, sql)
  return { directory: pathToFileURL(`${path}/`), write }
}

describeEachPostgres('migrations', which => {
  test('a fresh database gets all migrations, and a second run applies nothing', async () => {
    await using database = await emptyDatabase(which)
    const before = await migrationStatus(database)
    expect(before.length).toBeGreaterThan(0)
    expect(before.every(({ state }) => state === 'pending')).toBe(true)
    expect(await migrate(database)).toEqual(before.map(({ name }) => name))
    expect(await migrate(database)).toEqual([])
    expect((await migrationStatus(database)).every(({ state }) => state === 'applied')).toBe(true)
  })

  test('eight concurrent runs apply each migration once', async () => {
    await using database = await emptyDatabase(which)
    const { directory } = await migrations({
      '0001-one.sql': 'CREATE TABLE one (a int); SELECT pg_sleep(0.05)',
      '0002-two.sql': 'ALTER TABLE one ADD b int',
    })
    const runs = await Promise.all(Array.from({ length: 8 }, () => migrate({ url: database.url, directory })))
    expect(runs.flat().sort()).toEqual(['0001-one', '0002-two'])
  })

  test('a failed migration is rolled back, and earlier ones stay applied', async () => {
    await using database = await emptyDatabase(which)
    const { directory, write } = await migrations({
      '0001-one.sql': 'CREATE TABLE one (a int)',
      '0002-two.sql': 'CREATE TABLE two (a int); SELECT 1/0',
    })
    const run = () => migrate({ url: database.url, directory })
    await expect(run()).rejects.toThrow(/0002-two failed: division by zero/)
    const tables = statement<{ name: string }>(
      't',
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1",
    )
    expect(await database.db.rows(tables)).toEqual([{ name: 'one' }, { name: 'schema_migration' }])
    await write('0002-two.sql', 'CREATE TABLE two (a int)')
    expect(await run()).toEqual(['0002-two'])
  })

  test('an edited migration, one that sorts before an applied one, and a duplicate number are refused', async () => {
    await using database = await emptyDatabase(which)
    const { directory, write } = await migrations({ '0002-two.sql': 'CREATE TABLE two (a int)' })
    const run = () => migrate({ url: database.url, directory })
    await run()
    await write('0001-one.sql', 'CREATE TABLE one (a int)')
    await expect(run()).rejects.toThrow(/0001-one sorts before number 2/)
    await write('0002-two.sql', 'CREATE TABLE two (a bigint)')
    await expect(run()).rejects.toThrow(/0002-two was edited/)
    await write('0002-other.sql', '')
    await expect(run()).rejects.toThrow(/two migrations have the same number/)
  })

  test('a database that was migrated by a newer version of the program is left unchanged', async () => {
    await using database = await emptyDatabase(which)
    const newer = await migrations({ '0001-one.sql': 'SELECT 1', '0002-two.sql': 'SELECT 1' })
    const older = await migrations({ '0001-one.sql': 'SELECT 1' })
    await migrate({ url: database.url, directory: newer.directory })
    const run = { url: database.url, directory: older.directory }
    expect(await migrate(run)).toEqual([])
    expect((await migrationStatus(run)).map(({ state }) => state)).toEqual(['applied', 'unknown'])
  })

  test('schema.sql equals the schema after all migrations', async () => {
    await using database = await testDatabase(which)
    const dump = await dumpSchema(database.url)
    if (process.env['UPDATE_SCHEMA'] === '1' && which === 'embedded') await writeFile(schemaFile, dump)
    expect(dump).toBe(await readFile(schemaFile, 'utf8'))
  })
})
