/**
 * Before the first test: one embedded PostgreSQL and, where Debian's PostgreSQL 15 (the oldest version we support) is
 * installed, one of that, each with a migrated template database that `testDatabase` clones in milliseconds.
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
import { inMemory } from './in-memory.ts'
import { searchLogs } from './log-search.ts'
import { logDirVariable } from './log.ts'
import { type Reaper, startReaper } from './reaper.ts'

/** `installed`: the distribution's, 15 in Debian 12 and 17 in Debian 13. */
export type PostgresChoice = 'embedded' | 'installed'

/**
 * `missing`: no such server here, with what to install. `broken`: the template could not be migrated, so tests that clone
 * it fail with that text while all others still run.
 */
export type TestServer =
  | { readonly adminUrl: string; readonly broken: string | undefined }
  | { readonly missing: string }

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgres: Readonly<Record<PostgresChoice, TestServer>>
  }
}

/** Nothing of a test database must survive a power cut. */
const testSettings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '300',
  // It is in memory.
  max_wal_size: '256MB',
}

export const templateName = 'mote_template'

/** The same server, another database. */
export function databaseUrl(adminUrl: string, name: string): string {
  return adminUrl.replace('/mote?', `/${name}?`)
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await using cleanup = new AsyncDisposableStack()
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
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
  // Workers inherit it.
  process.env[logDirVariable] ??= logDir
  const atEnd = cleanup.move()
  return async () => {
    if (process.env[logDirVariable] === logDir) await assertNoSecretIn(logDir)
    await Promise.all([first.stop(), second?.stop()])
    await atEnd.disposeAsync()
  }
}

/** The oldest release that is supported, or the one that is nearest to it. */
const oldestInstalled = (found: readonly PostgresBinaries[]) =>
  found.filter(({ major, origin }) => major >= 15 && origin === 'installed').at(-1)

/** vitest only prints what a teardown throws; the exit code is ours to set. */
async function assertNoSecretIn(dir: string): Promise<void> {
  const { lines, secrets, leaks } = await searchLogs(dir)
  process.stdout.write(`logs: ${lines} lines searched for ${secrets} secrets and every token: ${leaks.length} found\n`)
  if (leaks.length === 0) return
  process.stderr.write(`Secrets in the logs of this run:\n${leaks.slice(0, 20).join('\n')}\n`)
  process.exitCode = 1
}

/**
 * A server for one suite alone, for tests of what transactions of other databases would disturb. About a second.
 * @param settings of the server, on top of those that all of them have here
 * @returns undefined when there is no such server here
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
  // mkdtemp makes it 0700; as root, the servers run under another account and must be able to enter.
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

/** initdb takes most of a second per server, a copy 60 ms: one initialised cluster for each version is kept. */
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
  // Another run may have been faster; then ours is not needed.
  await rename(made, cache).catch(() => rm(made, { recursive: true, force: true }))
  return cache
}

async function copyCluster(from: string, dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  // Not fs.cp: it does not keep the owner, which PostgreSQL insists on.
  await promisify(execFile)('cp', ['-a', join(from, 'cluster'), join(dataDir, 'cluster')])
}
