/**
 * Starts the database servers before the first test: one embedded PostgreSQL and, if Debian's PostgreSQL 15 (the oldest
 * supported version) is installed, one of that. Each has a migrated template database that `testDatabase` clones in
 * milliseconds.
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

/** `installed` is the distribution's version: 15 in Debian 12, 17 in Debian 13. */
export type PostgresChoice = 'embedded' | 'installed'

/**
 * `missing`: the server is not installed; the text says what to install. `broken`: the template could not be migrated,
 * so tests that clone it fail with this text while all others still run.
 */
export type TestServer =
  | { readonly adminUrl: string; readonly broken: string | undefined }
  | { readonly missing: string }

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgres: Readonly<Record<PostgresChoice, TestServer>>
  }
}

/** Durability is off, because test databases need not survive a power failure. */
const testSettings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '300',
  // The WAL is in memory.
  max_wal_size: '256MB',
}

export const templateName = 'mote_template'

/** The URL of another database on the same server. */
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
  // Worker processes inherit the variable.
  process.env[logDirVariable] ??= logDir
  const atEnd = cleanup.move()
  return async () => {
    if (process.env[logDirVariable] === logDir) await assertNoSecretIn(logDir)
    await Promise.all([first.stop(), second?.stop()])
    await atEnd.disposeAsync()
  }
}

/** The oldest supported release, or the next newer one that is installed. */
const oldestInstalled = (found: readonly PostgresBinaries[]) =>
  found.filter(({ major, origin }) => major >= 15 && origin === 'installed').at(-1)

/** vitest only prints errors of a teardown, so set the exit code here. */
async function assertNoSecretIn(dir: string): Promise<void> {
  const { lines, secrets, leaks } = await searchLogs(dir)
  process.stdout.write(`logs: ${lines} lines searched for ${secrets} secrets and every token: ${leaks.length} found\n`)
  if (leaks.length === 0) return
  process.stderr.write(`Secrets in the logs of this run:\n${leaks.slice(0, 20).join('\n')}\n`)
  process.exitCode = 1
}

/**
 * Starts a server for one suite, for tests that transactions of other databases would disturb. Takes about a second.
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
  // mkdtemp creates the directory with mode 0700; when run as root, the servers use another account and must be able to
  // enter.
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

/** initdb takes most of a second per server, a copy 60 ms, so one initialized cluster per version is cached. */
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
  // Another run may have finished first; then ours is discarded.
  await rename(made, cache).catch(() => rm(made, { recursive: true, force: true }))
  return cache
}

async function copyCluster(from: string, dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  // fs.cp does not preserve the owner, which PostgreSQL requires.
  await promisify(execFile)('cp', ['-a', join(from, 'cluster'), join(dataDir, 'cluster')])
}
