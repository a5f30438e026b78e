/** Starts, finds and stops one PostgreSQL server process for one cluster directory. */
import { execFile, spawn } from 'node:child_process'
import { chmod, chown, mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createHash } from 'node:crypto'
import { type Account, launchAs } from './account.ts'
import type { PostgresBinaries } from './binaries.ts'

export const superuser = 'mote'

export interface Cluster {
  /** Data directory of the server: contains `cluster/` (PGDATA), `socket/`, `owner.lock` and `server.log`. */
  readonly dataDir: string
  readonly clusterDir: string
  readonly binaries: PostgresBinaries
  readonly account: Account | undefined
}

/**
 * Creates the cluster. Locale: sorts by code point with Unicode case rules, identically on every host (built into
 * PostgreSQL 17 and later; earlier versions use the C library). Access: local connections are trusted, and the socket's
 * directory has mode 0700; there is no other way to connect.
 */
export async function initCluster(cluster: Cluster, options: { sync: boolean }): Promise<void> {
  const locale =
    cluster.binaries.major >= 17
      ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
      : ['--locale=C.UTF-8']
  const access = ['--username', superuser, '--auth-local=trust', '--auth-host=reject', '--encoding=UTF8']
  // initdb refuses a nonempty directory. What a killed run of initdb left there contains no data, so delete it.
  await rm(cluster.clusterDir, { recursive: true, force: true })
  await privateDir(cluster.clusterDir, cluster.account)
  const args = ['-D', cluster.clusterDir, ...access, ...locale, ...(options.sync ? [] : ['--no-sync'])]
  const program = join(cluster.binaries.binDir, 'initdb')
  const launch = await launchAs(cluster.account, program, args, [program, cluster.clusterDir])
  const { command, args: argv, ...identity } = launch
  await promisify(execFile)(command, [...argv], { ...identity, env: {}, cwd: '/' })
}

/** Creates a directory that only the server's account (and root) can enter. */
export async function privateDir(path: string, account: Account | undefined): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  await chmod(path, 0o700)
  if (account !== undefined) await chown(path, account.uid, account.gid)
}

/** The field `sun_path` of a socket address holds 107 bytes; PostgreSQL appends `/.s.PGSQL.5432` to the directory. */
const maxSocketDirBytes = 107 - '/.s.PGSQL.5432'.length

/**
 * Returns the socket directory: next to the data if its path is short enough, else in the temporary directory, with a
 * name derived from the path.
 */
export function socketDirFor(dataDir: string): string {
  const beside = join(dataDir, 'socket')
  if (Buffer.byteLength(beside) <= maxSocketDirBytes) return beside
  return join(tmpdir(), `mote-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`)
}

/** Creates the socket directory. Refuses a directory below /tmp that another user has created first. */
export async function prepareSocketDir(path: string, account: Account | undefined): Promise<void> {
  await mkdir(path, { mode: 0o700 }).catch(() => undefined)
  const { uid } = await stat(path)
  const allowed = [process.getuid?.(), account?.uid]
  if (!allowed.includes(uid))
    throw new Error(`${path} belongs to uid ${uid}: remove it, or choose a shorter --data path`)
  await privateDir(path, account)
}

export interface Postmaster {
  readonly pid: number
  readonly socketDir: string
  readonly ready: boolean
}

/** Returns the postmaster described by `postmaster.pid` (src/include/utils/pidfile.h), if that process is alive. */
export async function runningPostmaster(clusterDir: string): Promise<Postmaster | undefined> {
  const lines = (await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  const pid = Number(lines[0])
  if (!Number.isInteger(pid) || pid <= 0 || !(await isPostmasterOf(pid, clusterDir))) return undefined
  return { pid, socketDir: lines[4]?.trim() ?? '', ready: lines[7]?.trim() === 'ready' }
}

/**
 * Returns whether the process is a postmaster of this cluster, because a pid may be reused after a reboot. The working
 * directory of a postmaster is the directory of its cluster.
 */
async function isPostmasterOf(pid: number, clusterDir: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([
    stat(`/proc/${pid}/cwd`).catch(() => undefined),
    stat(clusterDir).catch(() => undefined),
  ])
  if (theirs !== undefined && ours !== undefined) return theirs.dev === ours.dev && theirs.ino === ours.ino
  // Root in a container may be unable to read the working directory of other users' processes, but every user can read
  // their arguments.
  const args = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => undefined)
  if (ours !== undefined && args !== undefined) return args.includes(`\0-D\0${clusterDir}\0`)
  return (await stat('/proc/self').catch(() => undefined)) === undefined && isAlive(pid)
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const pollMs = 4
/**
 * Time limit of a start. Crash recovery of a large cluster takes a while, but a server that is neither ready nor gone
 * after this time is stuck.
 */
const startTimeoutMs = 120_000

/** Messages with which PostgreSQL refuses to start while processes of a killed server are still exiting. */
const stillGoing = /lock file "postmaster.pid" already exists|pre-existing shared memory block/
const goneTimeoutMs = 10_000

/** Like `startServer`, but waits until the remaining processes of a killed server have exited. */
export async function startAfterCrash(
  cluster: Cluster,
  settings: Readonly<Record<string, string>>,
): Promise<Postmaster> {
  const deadline = performance.now() + goneTimeoutMs
  for (;;) {
    try {
      return await startServer(cluster, settings)
    } catch (error) {
      const wait = error instanceof Error && stillGoing.test(error.message) && performance.now() < deadline
      if (!wait) throw error
      await delay(50)
    }
  }
}

/**
 * Starts the server in a process session of its own, so that it outlives this program and Ctrl-C in the terminal does
 * not reach it.
 */
export async function startServer(cluster: Cluster, settings: Readonly<Record<string, string>>): Promise<Postmaster> {
  const program = join(cluster.binaries.binDir, 'postgres')
  const args = [
    '-D',
    cluster.clusterDir,
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
  const launch = await launchAs(cluster.account, program, args, [program, cluster.clusterDir])
  const logPath = join(cluster.dataDir, 'server.log')
  const output = await open(logPath, 'w', 0o600)
  const { command, args: argv, ...identity } = launch
  const child = spawn(command, [...argv], {
    ...identity,
    cwd: '/',
    // Do not pass on our environment, which may contain secrets, and PG* variables that are meant for other servers.
    env: { PATH: process.env['PATH'], TZ: 'UTC' },
    detached: true,
    stdio: ['ignore', output.fd, output.fd],
  })
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject)
    child.once('exit', async code => {
      const log = (await readFile(logPath, 'utf8').catch(() => '')).trim().split('\n').slice(-5).join('\n')
      reject(new Error(`PostgreSQL ended with code ${code} while starting; the end of ${logPath} says:\n${log}`))
    })
  })
  failed.catch(() => undefined)
  await output.close()
  child.unref()
  return Promise.race([untilReady(cluster.clusterDir), failed])
}

export async function untilReady(clusterDir: string): Promise<Postmaster> {
  const deadline = performance.now() + startTimeoutMs
  for (;;) {
    const found = await runningPostmaster(clusterDir)
    if (found?.ready) return found
    if (performance.now() > deadline)
      throw new Error(`PostgreSQL in ${clusterDir} did not become ready in ${startTimeoutMs} ms`)
    await delay(pollMs)
  }
}

/**
 * Stops the server with a fast shutdown: sessions end, all data is written, the process exits. If that takes longer
 * than `timeoutMs`, uses an immediate shutdown, after which the next start recovers from the WAL.
 */
export async function stopServer(clusterDir: string, pid: number, timeoutMs: number): Promise<void> {
  for (const [signal, patienceMs] of [
    ['SIGINT', timeoutMs],
    ['SIGQUIT', 5_000],
    ['SIGKILL', 5_000],
  ] as const) {
    if (isAlive(pid)) process.kill(pid, signal)
    const deadline = performance.now() + patienceMs
    while (performance.now() < deadline) {
      if (!(await isPostmasterOf(pid, clusterDir))) return
      await delay(pollMs)
    }
  }
  throw new Error(`PostgreSQL with pid ${pid} does not end`)
}
