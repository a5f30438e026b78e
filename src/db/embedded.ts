/**
 * The private PostgreSQL server of the embedded mode: a durable server on a Unix socket in the data directory. It runs
 * in a process session of its own and outlives a crash of the program; the next start adopts it.
 */
import { mkdir, readFile, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import { serverAccount } from './embedded/account.ts'
import { findBinaries, type PostgresBinaries } from './embedded/binaries.ts'
import { takeOwnership } from './embedded/owner.ts'
import { reachableBinaries } from './embedded/reachable.ts'
import * as server from './embedded/server.ts'

export interface EmbeddedOptions {
  /** The data directory, created if missing. Contains the cluster, its socket, its log and the lock. */
  readonly dataDir: string
  readonly log: Logger
  /** PostgreSQL programs to use instead of those that `findBinaries` chooses. */
  readonly binaries?: PostgresBinaries
  /** Additional server settings. Tests use them to disable fsync. */
  readonly settings?: Readonly<Record<string, string>>
}

export interface EmbeddedPostgres {
  readonly url: string
  /** The full server version, such as `18.4`. */
  readonly version: string
  /** Process id of the server; changes when the server dies and is restarted. */
  pid(): number
  /** True if this call started the server; false if it adopted a running one. */
  readonly started: boolean
  /** Stops the server with a fast shutdown. Idempotent. */
  stop(): Promise<void>
}

const databaseName = 'mote'
const stopTimeoutMs = 30_000

const defaultSettings = {
  listen_addresses: '',
  max_connections: '200',
  fsync: 'on',
  synchronous_commit: 'on',
  // Settings that bound the size of the log: one file per weekday, overwritten a week later.
  logging_collector: 'on',
  log_directory: 'log',
  log_filename: 'postgresql-%a.log',
  log_truncate_on_rotation: 'on',
  log_rotation_age: '1d',
  log_rotation_size: '0',
  log_min_messages: 'warning',
  timezone: 'UTC',
  // No timeouts here, because the program sets them on each connection. JIT is off, because compiling small queries
  // would only slow down a restart of the program.
  jit: 'off',
  // `random_page_cost` for disks without seek times. With the default of 4, queries for one page of results read whole
  // tables of several hundred rows once per row.
  random_page_cost: '1.1',
} satisfies Readonly<Record<string, string>>

/**
 * Starts the server in `dataDir`, or adopts it if it already runs. A start was measured at 70 to 110 ms, the first one
 * (with initdb) at about 1 s.
 * @throws DataDirInUse when another live program owns `dataDir`; Error when no server of its major version is
 * available.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  await mkdir(options.dataDir, { recursive: true, mode: 0o711 })
  const dataDir = await realpath(options.dataDir)
  const owner = await takeOwnership(join(dataDir, 'owner.lock'))
  try {
    const { postmaster, started, version } = await findAnswering(dataDir, options)
    options.log.info({ pid: postmaster.pid, version, adopted: !started }, 'embedded PostgreSQL is ready')
    const keeper = keepAlive(postmaster, dataDir, options)
    let stopping: Promise<void> | undefined
    const stop = async () => {
      const { pid, socketDir } = await keeper.end()
      await server.stopServer(join(dataDir, 'cluster'), pid, stopTimeoutMs)
      await rm(socketDir, { recursive: true, force: true })
      await owner.release()
    }
    return {
      url: urlOf(postmaster.socketDir, databaseName),
      version,
      started,
      pid: () => keeper.current().pid,
      stop: () => (stopping ??= stop()),
    }
  } catch (error) {
    await owner.release()
    throw error
  }
}

/**
 * Returns the URL of the server that another program runs in `dataDir`; undefined if none runs. Used by short commands
 * such as `mote admin`, which do not start, own or stop the server.
 */
export async function runningEmbeddedUrl(dataDir: string): Promise<string | undefined> {
  const running = await server.runningPostmaster(join(dataDir, 'cluster'))
  return running?.ready ? urlOf(running.socketDir, databaseName) : undefined
}

const watchMs = 200

/** Restarts the server on the same socket if it dies (for example killed by the kernel's OOM killer). */
function keepAlive(first: server.Postmaster, dataDir: string, options: EmbeddedOptions) {
  const ended = new AbortController()
  let postmaster = first
  const watch = async () => {
    while (!ended.signal.aborted) {
      await delay(watchMs, undefined, { signal: ended.signal, ref: false }).catch(() => undefined)
      if (ended.signal.aborted || server.isAlive(postmaster.pid)) continue
      options.log.error({ pid: postmaster.pid }, 'embedded PostgreSQL died; restarting it')
      try {
        postmaster = (await findOrStart(dataDir, options)).postmaster
      } catch (error) {
        options.log.error({ err: error }, 'embedded PostgreSQL does not start; retrying')
      }
    }
  }
  const watching = watch()
  return {
    current: () => postmaster,
    async end() {
      ended.abort()
      await watching
      return postmaster
    },
  }
}

/**
 * The processes of a killed server take a moment to exit. Until then, the server looks as if this program could adopt
 * it.
 */
const dyingTimeoutMs = 10_000

async function findAnswering(dataDir: string, options: EmbeddedOptions) {
  const deadline = performance.now() + dyingTimeoutMs
  for (;;) {
    const found = await findOrStart(dataDir, options)
    try {
      return { ...found, version: await ensureDatabase(found.postmaster.socketDir) }
    } catch (error) {
      if (found.started || performance.now() > deadline) throw error
      options.log.warn(
        { pid: found.postmaster.pid, err: error },
        'the embedded PostgreSQL that was running has exited; retrying',
      )
      await delay(50)
    }
  }
}

async function findOrStart(dataDir: string, options: EmbeddedOptions) {
  const clusterDir = join(dataDir, 'cluster')
  if ((await server.runningPostmaster(clusterDir)) !== undefined) {
    return { postmaster: await server.untilReady(clusterDir), started: false }
  }
  const existing = await clusterMajor(clusterDir)
  const binaries = options.binaries ?? choose(await findBinaries(), existing, clusterDir)
  if (existing !== undefined && existing !== binaries.major) throw wrongMajor(existing, [binaries], clusterDir)
  const account = await serverAccount(clusterDir)
  const cluster = { dataDir, clusterDir, binaries: await reachableBinaries(binaries, account), account }
  const settings: Record<string, string> = { ...defaultSettings, ...options.settings }
  if (existing === undefined) await server.initCluster(cluster, { sync: settings['fsync'] !== 'off' })
  const socketDir = server.socketDirFor(dataDir)
  await server.prepareSocketDir(socketDir, cluster.account)
  const sockets = { unix_socket_directories: socketDir, unix_socket_permissions: '0700' }
  return { postmaster: await server.startAfterCrash(cluster, { ...settings, ...sockets }), started: true }
}

/**
 * Returns the major version of a complete cluster. Checks `global/pg_control`, which initdb writes last, because it
 * writes PG_VERSION early.
 */
async function clusterMajor(clusterDir: string): Promise<number | undefined> {
  const whole = await readFile(join(clusterDir, 'global', 'pg_control')).catch(() => undefined)
  if (whole === undefined) return undefined
  return Number.parseInt(await readFile(join(clusterDir, 'PG_VERSION'), 'utf8'), 10)
}

function choose(
  found: readonly PostgresBinaries[],
  existing: number | undefined,
  clusterDir: string,
): PostgresBinaries {
  const [first] = existing === undefined ? found : found.filter(({ major }) => major === existing)
  if (first !== undefined) return first
  if (existing !== undefined) throw wrongMajor(existing, found, clusterDir)
  throw new Error(
    `no PostgreSQL server for ${process.platform}-${process.arch}: install one (Debian: apt-get install postgresql) or set DATABASE_URL`,
  )
}

function wrongMajor(existing: number, found: readonly PostgresBinaries[], clusterDir: string): Error {
  const have = found.map(({ major }) => major).join(', ') || 'none'
  return new Error(
    `${clusterDir} was created by PostgreSQL ${existing}, and the servers here are: ${have}. Nothing was changed. ` +
      `Either install PostgreSQL ${existing} (apt-get install postgresql-${existing}), which is then used by itself, or ` +
      `move the data: with ${existing} running, pg_dump the database "${databaseName}", start on an empty --data, and restore it there.`,
  )
}

function urlOf(socketDir: string, database: string): string {
  return `postgresql://${server.superuser}@/${database}?host=${encodeURIComponent(socketDir)}`
}

async function ensureDatabase(socketDir: string): Promise<string> {
  const client = new pg.Client({ connectionString: urlOf(socketDir, 'postgres') })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<{ version: string; exists: boolean }>(
      "SELECT split_part(current_setting('server_version'), ' ', 1) AS version, EXISTS (SELECT FROM pg_database WHERE datname = $1) AS exists",
      [databaseName],
    )
    if (rows[0]?.exists === false) await client.query(`CREATE DATABASE ${pg.escapeIdentifier(databaseName)}`)
    return rows[0]?.version ?? 'unknown'
  } finally {
    await client.end().catch(() => undefined)
  }
}
