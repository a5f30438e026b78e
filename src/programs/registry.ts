/**
 * Starts and supervises the installation's own registry: CNCF Distribution (Debian package docker-registry). It only
 * accepts tokens from the control plane.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type RegistryTrust, tokenIssuer, tokenService } from '../control/registries/index.ts'
import { backoffMs } from '../lib/backoff.ts'
import { childEnv } from '../lib/child-env.ts'
import { writeFileAtomic } from '../lib/files.ts'
import { lineReader } from '../lib/lines.ts'
import { findProgram } from '../lib/programs.ts'

export interface RegistryOptions {
  /** Directory for the registry's configuration and images; created if it is missing. */
  readonly dir: string
  readonly host: string
  readonly port: number
  /** Public address of the control plane. The registry tells clients to get their tokens there. */
  readonly publicUrl: string
  readonly trust: RegistryTrust
  readonly log: Logger
}

export interface Registry {
  /** Process id of the registry. It changes when the registry exits and is started again. */
  pid(): number
  stop(): Promise<void>
}

interface Account {
  readonly uid: number
  readonly gid: number
}

const startMs = 10_000
const stopMs = 5000

/**
 * Starts the registry. @throws Error with the reason if it is not installed, its port is in use, or it does not start
 */
export async function startRegistry(options: RegistryOptions): Promise<Registry> {
  const program = await findProgram('docker-registry')
  if (program === undefined)
    throw new Error('MOTE_REGISTRY_PORT is set, but docker-registry is not installed: apt-get install docker-registry')
  const account = await registryAccount()
  await requireFree(options)
  const config = await writeFiles(options, account)
  const launch = () => start([...asAccount(account), program, 'serve', config], options.log)
  let child = launch()
  try {
    await answering(child, options)
  } catch (cause) {
    await stopChild(child.process)
    throw cause
  }
  options.log.info({ pid: child.process.pid, port: options.port }, 'the registry is ready')
  const ended = new AbortController()
  const kept = keepAlive(options.log, ended.signal, async () => {
    await once(child.process, 'exit')
    return () => {
      child = launch()
    }
  })
  return {
    pid: () => child.process.pid ?? 0,
    async stop() {
      ended.abort()
      await stopChild(child.process)
      await kept
    },
  }
}

/** Starts the registry again whenever it exits, with increasing delays. */
async function keepAlive(log: Logger, signal: AbortSignal, exited: () => Promise<() => void>): Promise<void> {
  for (let failures = 0; ; failures++) {
    const sinceMs = performance.now()
    const again = await exited()
    if (performance.now() - sinceMs > 60_000) failures = 0
    if (signal.aborted) return
    log.error('the registry ended; starting it again')
    await delay(backoffMs(failures, Math.random(), { capMs: 30_000 }), undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    again()
  }
}

/**
 * Returns the unprivileged account as which root runs the registry, because images come from tenants; undefined if this
 * process is not root.
 */
export async function registryAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n')
  // Prefer the account that Debian's package creates.
  const line = ['docker-registry', 'nobody'].map(name => lines.find(one => one.startsWith(`${name}:`))).find(Boolean)
  const [, , uid, gid] = (line ?? '').split(':')
  if (!uid || !gid) throw new Error('There is no account "docker-registry" or "nobody" to run the registry as.')
  return { uid: Number(uid), gid: Number(gid) }
}

/**
 * Returns the command that runs docker-registry without privileges. The kernel kills it when this process ends, even by
 * SIGKILL.
 */
export function asAccount(account: Account | undefined): string[] {
  const user = account
    ? ['--reuid', String(account.uid), '--regid', String(account.gid), '--clear-groups', '--bounding-set', '-all']
    : []
  return ['setpriv', ...user, '--no-new-privs', '--pdeathsig', 'KILL']
}

/**
 * Writes the registry's configuration and certificates, readable for its account.
 * @returns the path of the configuration file
 */
async function writeFiles(options: RegistryOptions, account: Account | undefined): Promise<string> {
  const { dir, host, port, publicUrl, trust } = options
  const images = join(dir, 'images')
  await mkdir(images, { recursive: true, mode: 0o711 })
  if (account) await enterable(dir, account)
  const certificates = join(dir, 'token-certificates.pem')
  const config = join(dir, 'config.yml')
  await writeFileAtomic(certificates, trust.certificates)
  // The configuration file is YAML, of which JSON is a subset.
  const content = {
    version: '0.1',
    // Log only errors: refused requests are warnings, and anybody can cause them.
    log: { level: 'error', formatter: 'json', accesslog: { disabled: true } },
    storage: {
      filesystem: { rootdirectory: images },
      delete: { enabled: true },
      cache: { blobdescriptor: 'inmemory' },
    },
    http: { addr: `${host.includes(':') ? `[${host}]` : host}:${port}`, secret: trust.uploadSecret },
    auth: {
      token: {
        realm: `${publicUrl}/v1/registry/token`,
        service: tokenService,
        issuer: tokenIssuer,
        rootcertbundle: certificates,
      },
    },
  }
  await writeFile(config, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
  if (!account) return config
  for (const path of [images, certificates, config]) await chown(path, account.uid, account.gid)
  return config
}

/**
 * Checks that an account can enter a directory. @throws Error if it cannot, because of the directory or one of its
 * parents
 */
async function enterable(dir: string, { uid, gid }: Account): Promise<void> {
  for (let path = dir; path !== dirname(path); path = dirname(path)) {
    const found = await stat(path)
    const bit = found.uid === uid ? 0o100 : found.gid === gid ? 0o010 : 0o001
    if ((found.mode & bit) === 0)
      throw new Error(
        `The registry runs as user ${uid}, which cannot enter ${path}: choose another --data, or run chmod o+x ${path}`,
      )
  }
}

interface Child {
  readonly process: ChildProcess
  /** Returns the last line that the registry wrote to stderr. */
  readonly said: () => string
}

const mostLineBytes = 16_384

function start([command = '', ...args]: readonly string[], log: Logger): Child {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: childEnv('docker-registry') })
  let last = ''
  const read = lineReader(
    mostLineBytes,
    line => {
      last = line
      log.warn({ line }, 'the registry reports')
    },
    () => undefined,
  )
  child.stderr.on('data', (part: Buffer) => void read(part))
  child.on('error', err => log.error({ err }, 'cannot start the registry'))
  return { process: child, said: () => last }
}

/**
 * Checks that no other program listens on the port. Such a program would be taken for the registry until the registry
 * itself has failed to start.
 */
async function requireFree({ host, port }: RegistryOptions): Promise<void> {
  const probe = createServer()
  probe.listen(port, host)
  await once(probe, 'listening')
  await new Promise<void>(resolve => void probe.close(() => resolve()))
}

async function answering({ process: child, said }: Child, { host, port }: RegistryOptions): Promise<void> {
  const untilMs = performance.now() + startMs
  while (child.exitCode === null && child.signalCode === null && performance.now() < untilMs) {
    if (await accepts(host === '0.0.0.0' || host === '::' ? 'localhost' : host, port)) {
      // Wait briefly: if it is another program that listens on the port, the registry exits meanwhile.
      await delay(50)
      if (child.exitCode === null) return
    }
    await delay(20)
  }
  const reason = /"msg":"([^"]*)"/.exec(said())?.[1] ?? said()
  throw new Error(
    `The registry does not start (MOTE_REGISTRY_PORT ${port}): ${reason || 'the registry did not answer in time'}`,
  )
}

/** Whether a program accepts connections on the port. */
export async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port })
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(1000) })
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), stopMs)
  await gone
  clearTimeout(timer)
}
