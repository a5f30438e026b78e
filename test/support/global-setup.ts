/**
 * Starts the database servers before the first test: the embedded PostgreSQL and, if installed, the distribution's, of
 * which 15 is the oldest supported version. Each has a template database with all migrations, which `testDatabase`
 * clones in milliseconds.
 */
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { pino } from 'pino'
import type { TestProject } from 'vitest/node'
import { findBinaries, type PostgresBinaries } from '../../src/db/embedded/binaries.ts'
import { startEmbeddedPostgres } from '../../src/db/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { removeAbandoned } from './agent/remains.ts'
import { inMemory } from './in-memory.ts'
import { searchLogs } from './log-search.ts'
import { logDirVariable } from './log.ts'
import { type Reaper, startReaper } from './reaper.ts'

/** A PostgreSQL server. `installed` is the distribution's version: 15 in Debian 12, 17 in Debian 13. */
export type PostgresChoice = 'embedded' | 'installed'

/**
 * A server, or why there is none. `missing`: it is not installed; the text names what to install. `broken`: migrating
 * the template failed, so tests that clone it fail with this text, while all others run.
 */
export type TestServer =
  | { readonly adminUrl: string; readonly broken: string | undefined }
  | { readonly missing: string }

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgres: Readonly<Record<PostgresChoice, TestServer>>
  }
}

/** PostgreSQL settings. Durability is off, because test databases need not survive a power failure. */
const testSettings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '500',
  // Small, because the WAL is in memory.
  max_wal_size: '256MB',
  // Each connection plans a prepared statement once. By default, PostgreSQL also plans each of the first five
  // executions, which took a tenth of the CPU time of tests that use a database.
  plan_cache_mode: 'force_generic_plan',
}

export const templateName = 'mote_template'

/** Returns the URL of another database on the same server. */
export function databaseUrl(adminUrl: string, name: string): string {
  return adminUrl.replace('/mote?', `/${name}?`)
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await using cleanup = new AsyncDisposableStack()
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  const abandoned = await removeAbandoned()
  if (abandoned.length > 0) process.stdout.write(`removed what killed test runs left: ${abandoned.join(', ')}\n`)
  const binaries = await findBinaries()
  const embedded = binaries[0]
  if (embedded === undefined)
    throw new Error('no PostgreSQL server programs: run npm install, or apt-get install postgresql')
  const installed = oldestInstalled(binaries)
  const root = await serverRoot(reaper)
  const [first, second] = await Promise.all([
    startServer(embedded, join(root, 'embedded'), reaper),
    installed === undefined ? undefined : startServer(installed, join(root, 'installed'), reaper),
  ])
  project.provide('postgres', {
    embedded: first.server,
    installed: second?.server ?? { missing: 'no PostgreSQL is installed: apt-get install postgresql' },
  })
  const logDir = await mkdtemp(join(tmpdir(), 'mote-test-logs-'))
  reaper.removeAtEnd(logDir)
  // Test processes inherit this variable.
  process.env[logDirVariable] ??= logDir
  const atEnd = cleanup.move()
  return async () => {
    if (process.env[logDirVariable] === logDir) await assertNoSecretIn(logDir)
    await Promise.all([first.stop(), second?.stop()])
    await atEnd.disposeAsync()
  }
}

/** Returns the oldest supported release that is installed. */
const oldestInstalled = (found: readonly PostgresBinaries[]) =>
  found.filter(({ major, origin }) => major >= 15 && origin === 'installed').at(-1)

/** Sets the exit code if a log contains a secret, because vitest only prints errors of a teardown. */
async function assertNoSecretIn(dir: string): Promise<void> {
  const { lines, secrets, leaks } = await searchLogs(dir)
  process.stdout.write(`logs: ${lines} lines searched for ${secrets} secrets and every token: ${leaks.length} found\n`)
  if (leaks.length === 0) return
  process.stderr.write(`Secrets in the logs of this run:\n${leaks.slice(0, 20).join('\n')}\n`)
  process.exitCode = 1
}

/**
 * Starts a server for a single suite, which transactions in databases of other tests would disturb. Takes about a
 * second.
 * @param settings added to the settings that all test servers share
 * @returns undefined if the server is not installed
 */
export async function startPrivateServer(
  which: PostgresChoice,
  settings: Readonly<Record<string, string>> = {},
): Promise<({ adminUrl: string } & AsyncDisposable) | undefined> {
  const found = await findBinaries()
  const binaries = which === 'installed' ? oldestInstalled(found) : found[0]
  if (binaries === undefined) return undefined
  const reaper = startReaper()
  const { server, stop } = await startServer(binaries, join(await serverRoot(reaper), which), reaper, settings)
  if ('missing' in server || server.broken !== undefined) throw new Error('the private server has no template')
  return {
    adminUrl: server.adminUrl,
    async [Symbol.asyncDispose]() {
      await stop()
      await reaper.finish()
    },
  }
}

async function serverRoot(reaper: Reaper): Promise<string> {
  const root = await mkdtemp(join(await inMemory(), 'mote-test-'))
  // Allow traversal, because servers that root starts run as another user.
  await chmod(root, 0o711)
  reaper.removeAtEnd(root)
  return root
}

async function startServer(
  binaries: PostgresBinaries,
  dataDir: string,
  reaper: Reaper,
  settings: Readonly<Record<string, string>> = {},
) {
  await copyCluster(await initialisedCluster(binaries), dataDir)
  const server = await startEmbeddedPostgres({
    dataDir,
    log: pino({ level: 'silent' }),
    binaries,
    settings: { ...testSettings, ...settings },
  })
  const pid = server.pid()
  reaper.killAtEnd(pid)
  const stop = async () => {
    await server.stop()
    reaper.forget(pid)
  }
  return { server: await makeTemplate(server.url), stop }
}

async function makeTemplate(adminUrl: string): Promise<TestServer> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  await client.query(`CREATE DATABASE ${pg.escapeIdentifier(templateName)}`)
  await client.end()
  try {
    await migrate({ url: databaseUrl(adminUrl, templateName) })
    return { adminUrl, broken: undefined }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { adminUrl, broken: `the template database could not be migrated: ${message}` }
  }
}

const cacheDir = fileURLToPath(new URL('../../.cache/test-postgres/', import.meta.url))

/**
 * Returns a cached database cluster of this version, fresh from initdb; creates it if there is none. Copying it takes
 * 60 ms, initdb most of a second.
 */
async function initialisedCluster(binaries: PostgresBinaries): Promise<string> {
  const cache = join(cacheDir, String(binaries.major))
  if (await stat(cache).catch(() => undefined)) return cache
  const made = `${cache}.${process.pid}`
  await mkdir(join(cache, '..'), { recursive: true, mode: 0o711 })
  const server = await startEmbeddedPostgres({
    dataDir: made,
    log: pino({ level: 'silent' }),
    binaries,
    settings: testSettings,
  })
  await server.stop()
  // Discard this cluster if another test run was faster.
  await rename(made, cache).catch(() => rm(made, { recursive: true, force: true }))
  return cache
}

async function copyCluster(from: string, dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  // Not with fs.cp, which does not preserve the owner, as PostgreSQL requires.
  await promisify(execFile)('cp', ['-a', join(from, 'cluster'), join(dataDir, 'cluster')])
}
