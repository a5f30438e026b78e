/** Start, find again and stop one PostgreSQL server process over one cluster directory. */
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
  /** Below it: `cluster/` (PGDATA), `socket/`, `owner.lock`, `server.log`. */
  readonly dataDir: string
  readonly clusterDir: string
  readonly binaries: PostgresBinaries
  readonly account: Account | undefined
}

/**
 * Makes the cluster once. Locale: sorted by code point with Unicode case rules, the same on every machine (PostgreSQL
 * 17 and later bring it themselves, older ones take it from the C library). Access: everybody who can reach the socket
 * is trusted, nobody else can connect at all; the socket's directory is 0700.
 */
export async function initCluster(cluster: Cluster, options: { sync: boolean }): Promise<void> {
  const locale =
    cluster.binaries.major >= 17
      ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
      : ['--locale=C.UTF-8']
  const access = ['--username', superuser, '--auth-local=trust', '--auth-host=reject', '--encoding=UTF8']
  // initdb refuses a directory with anything in it; a half-made one of a killed run holds nothing worth keeping.
  await rm(cluster.clusterDir, { recursive: true, force: true })
  await privateDir(cluster.clusterDir, cluster.account)
  const args = ['-D', cluster.clusterDir, ...access, ...locale, ...(options.sync ? [] : ['--no-sync'])]
  const program = join(cluster.binaries.binDir, 'initdb')
  const launch = await launchAs(cluster.account, program, args, [program, cluster.clusterDir])
  const { command, args: argv, ...identity } = launch
  await promisify(execFile)(command, [...argv], { ...identity, env: {}, cwd: '/' })
}

/** A directory that only the server's account can enter (and root, who runs us then). */
export async function privateDir(path: string, account: Account | undefined): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  await chmod(path, 0o700)
  if (account !== undefined) await chown(path, account.uid, account.gid)
}

/** `sun_path` holds 107 bytes; PostgreSQL appends `/.s.PGSQL.5432`. */
const maxSocketDirBytes = 107 - '/.s.PGSQL.5432'.length

/** Beside the data where the path is short enough, else in the temporary directory under a name derived from it. */
export function socketDirFor(dataDir: string): string {
  const beside = join(dataDir, 'socket')
  if (Buffer.byteLength(beside) <= maxSocketDirBytes) return beside
  return join(tmpdir(), `mote-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`)
}

/** A directory under /tmp may have been made by somebody else before us: then it is not ours to trust. */
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

/** What `postmaster.pid` says (src/include/utils/pidfile.h), if that process lives. */
export async function runningPostmaster(clusterDir: string): Promise<Postmaster | undefined> {
  const lines = (await readFile(join(clusterDir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
  const pid = Number(lines[0])
  if (!Number.isInteger(pid) || pid <= 0 || !(await isPostmasterOf(pid, clusterDir))) return undefined
  return { pid, socketDir: lines[4]?.trim() ?? '', ready: lines[7]?.trim() === 'ready' }
}

/** A pid is reused after a reboot; a postmaster's working directory is its cluster. */
async function isPostmasterOf(pid: number, clusterDir: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([
    stat(`/proc/${pid}/cwd`).catch(() => undefined),
    stat(clusterDir).catch(() => undefined),
  ])
  if (theirs !== undefined && ours !== undefined) return theirs.dev === ours.dev && theirs.ino === ours.ino
  // Root in a container may not look into the processes of other users; the arguments of one are open to all.
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
/** Crash recovery of a large cluster takes a while; a server that is neither ready nor gone by then is stuck. */
const startTimeoutMs = 120_000

/** The processes of a server that was killed take a moment to go, and PostgreSQL rightly refuses to start before. */
const stillGoing = /lock file "postmaster.pid" already exists|pre-existing shared memory block/
const goneTimeoutMs = 10_000

/** Like `startServer`, but waits for the remains of a killed predecessor. */
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

/** Starts the server in a session of its own: it must survive us, and Ctrl-C on our terminal must not reach it. */
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
    // Not our environment: it may hold secrets and PG* variables meant for other servers.
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

/** Fast shutdown: sessions end, everything is written, the process is gone. Immediate after `timeoutMs`; WAL covers that. */
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
