/** Runs a control plane in its own process with its own durable PostgreSQL, and creates its first account. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { pino } from 'pino'
import type { HostHeartbeat } from '../src/contract/agent.ts'
import { startEmbeddedPostgres } from '../src/db/embedded.ts'
import { migrate } from '../src/db/migrate.ts'
import { programFlags } from '../scripts/build.mjs'
import { startReaper } from '../test/support/reaper.ts'
import { builtChild } from './built.ts'
import type { Turns } from './event-loop.ts'
import { cpuMsOf, rssMib } from './process.ts'

const person = { email: 'bench@example.com', password: 'a long sentence of the bench' }

export interface Plane extends AsyncDisposable {
  readonly url: string
  readonly databaseUrl: string
  readonly sql: pg.Client
  readonly jwt: string
  readonly refreshToken: string
  readonly projectId: string
  cpuMs(): number
  rssMib(): number
  /** Returns the memory of live objects and buffers in MiB, after a garbage collection. */
  liveMib(): Promise<number>
  /** Returns the figures of the control plane's event loop since the last call. */
  turns(): Promise<Turns>
  /** Sends these heartbeats to the control plane every second from now on. */
  heartbeat(heartbeats: readonly HostHeartbeat[]): void
  /**
   * Stops the process and starts another on the same database.
   * @returns milliseconds from the start of the new process to its first response
   */
  restart(): Promise<number>
}

/**
 * Settings with limits that no benchmark reaches. The time limit for heartbeats is a day, because seeded hosts send
 * none.
 */
export const unlimited: Readonly<Record<string, string>> = {
  ...Object.fromEntries(['TENANT', 'ANONYMOUS', 'LOGIN', 'CREATES'].map(name => [`MOTE_RATE_${name}`, '100000000'])),
  MOTE_STREAMS_PER_USER: '100000',
  MOTE_HOST_TIMEOUT: '86400',
  MOTE_RATE_REFUSAL_DELAY: '0',
}

/**
 * Starts a durable PostgreSQL with all migrations applied, which runs until `cleanup` ends.
 * @returns URL of the database
 */
export async function startDatabase(cleanup: AsyncDisposableStack): Promise<string> {
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  const dataDir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
  reaper.removeAtEnd(dataDir)
  const postgres = await startEmbeddedPostgres({ dataDir: join(dataDir, 'data'), log: pino({ level: 'silent' }) })
  const postgresPid = postgres.pid()
  reaper.killAtEnd(postgresPid)
  cleanup.defer(async () => {
    await postgres.stop()
    reaper.forget(postgresPid)
  })
  await migrate({ url: postgres.url })
  return postgres.url
}

/** Starts a control plane. @param env settings in addition to the secret; default: settings without limits */
export async function startPlane(env: Readonly<Record<string, string>> = unlimited): Promise<Plane> {
  await using cleanup = new AsyncDisposableStack()
  const databaseUrl = await startDatabase(cleanup)
  const sql = new pg.Client({ connectionString: databaseUrl })
  await sql.connect()
  cleanup.defer(() => sql.end())
  let running = await startChild(databaseUrl, env)
  cleanup.defer(() => running.stop())
  const url = () => `http://127.0.0.1:${running.port}`
  await post(`${url()}/v1/auth/register`, { ...person, captcha_id: '', captcha_answer: '' })
  const login = await post(`${url()}/v1/auth/login`, person)
  await sql.query(`UPDATE project SET plan = 'unlimited'`)
  const { rows } = await sql.query<{ id: string }>('SELECT id FROM project')
  const all = cleanup.move()
  return {
    get url() {
      return url()
    },
    databaseUrl,
    sql,
    projectId: rows[0]?.id ?? '',
    jwt: String(login['token']),
    refreshToken: String(login['refresh_token']),
    cpuMs: () => cpuMsOf(running.pid),
    rssMib: () => rssMib(running.pid),
    async liveMib() {
      running.child.send('collect')
      const [message] = await once(running.child, 'message')
      return (message as { liveBytes: number }).liveBytes / 2 ** 20
    },
    async turns() {
      running.child.send('turns')
      const [message] = await once(running.child, 'message')
      return message as Turns
    },
    heartbeat: heartbeats => running.child.send(heartbeats),
    async restart() {
      await running.stop()
      const began = performance.now()
      running = await startChild(databaseUrl, env)
      await fetch(`${url()}/v1/health`).then(response => response.arrayBuffer())
      return performance.now() - began
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

interface Running {
  readonly child: ChildProcess
  readonly pid: number
  readonly port: number
  stop(): Promise<void>
}

/**
 * Returns Node's flags that store a CPU profile of each control plane in the directory `BENCH_PROFILE`, if that
 * variable is set.
 */
function profileFlags(): string[] {
  const dir = process.env['BENCH_PROFILE']
  return dir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${dir}`]
}

async function startChild(databaseUrl: string, env: Readonly<Record<string, string>>): Promise<Running> {
  const child = fork(await builtChild('plane-child.ts'), {
    execArgv: [...programFlags, ...profileFlags()],
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: process.env['HOME'] ?? '',
      // Use a compile cache, as installed programs do (src/programs/compile-cache.ts).
      NODE_COMPILE_CACHE: join(homedir(), '.cache', 'mote', 'compiled'),
      MOTE_SECRET_KEY: 'bench-'.repeat(8),
      MOTE_CAPTCHA: 'off',
      DATABASE_URL: databaseUrl,
      ...env,
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const [message] = await Promise.race([once(child, 'message'), failed(child)])
  return {
    child,
    pid: child.pid ?? 0,
    port: (message as { port: number }).port,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

async function failed(child: ChildProcess): Promise<never> {
  const [code] = await once(child, 'exit')
  throw new Error(`the control plane ended with ${code} before it was up`)
}

export async function post(url: string, body: object, token?: string): Promise<Record<string, unknown>> {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...authorization },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${url} answered ${response.status}: ${text}`)
  return JSON.parse(text)
}
