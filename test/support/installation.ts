/**
 * An installation as an operator runs it: control plane, gateway and agents in separate processes, on a real
 * nats-server with separate permissions for each. Agents can run in network namespaces, as if on separate hosts.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { natsAuthorization } from '../../src/bus/permissions.ts'
import { type Api, api } from './api.ts'
import { testDatabase } from './database.ts'
import { recordOutput } from './log.ts'
import { freePort } from './free-port.ts'
import { startNatsServer } from './nats.ts'
import { moteProgram } from './program.ts'
import { startReaper } from './reaper.ts'
import { until, type UntilOptions } from './wait.ts'
import { testCache } from './agent/test-cache.ts'

const password = 'secret'
const gatewayId = 'edge'

export interface Installation extends AsyncDisposable {
  readonly dir: string
  /** API client of the first registered user, who is an administrator. */
  readonly admin: Api
  /** Waits for a condition. On a timeout, the error contains the last warnings and errors of the programs. */
  until(condition: () => Promise<boolean>, options: UntilOptions): Promise<void>
  /** Starts an agent. @param inside command prefix that runs it elsewhere, such as `ip netns exec <name>` */
  startAgent(hostId: string, args: readonly string[], inside?: readonly string[]): void
  startGateway(args: readonly string[], inside?: readonly string[]): void
}

export interface InstallationOptions {
  readonly hostIds: readonly string[]
  /** Address of this machine for the bus, which all hosts can reach. */
  readonly busHost: string
}

/** Starts the control plane and the bus. Disposal stops all programs and their VMs. */
export async function startInstallation({ hostIds, busHost }: InstallationOptions): Promise<Installation> {
  await using undo = new AsyncDisposableStack()
  const reaper = startReaper()
  undo.defer(() => reaper.finish())
  const dir = await mkdtemp(join(tmpdir(), 'mote-installation-'))
  undo.defer(() => rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
  testCache(join(dir, '.cache', 'mote'))
  const users = [
    { role: { kind: 'control' }, password },
    { role: { kind: 'gateway', id: gatewayId }, password },
    ...hostIds.map(id => ({ role: { kind: 'host', id }, password }) as const),
  ] as const
  const nats = undo.use(await startNatsServer({ config: natsAuthorization(users), host: busHost }))
  const busUrl = (user: string) => nats.url.replace('nats://', `nats://${user}:${password}@`)
  const database = await testDatabase()
  undo.defer(() => database.drop())
  const programs = undo.use(new AsyncDisposableStack())
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const inherited = { PATH, NODE_COMPILE_CACHE }
  const output: string[] = []

  const start = (name: string, inside: readonly string[], args: readonly string[], env: Record<string, string>) => {
    const [program = '', ...rest] = [...inside, process.execPath, moteProgram, ...args]
    const child = spawn(program, rest, {
      env: { ...inherited, HOME: dir, MOTE_SSH_PORT: '', MOTE_LOG_LEVEL: 'trace', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    reaper.killAtEnd(child.pid ?? 0)
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', text => {
        recordOutput(text)
        output.push(
          ...String(text)
            .split('\n')
            .filter(isComplaint)
            .map(line => `${name}: ${line}`),
        )
      })
    programs.defer(async () => {
      await ended(child)
      reaper.forget(child.pid ?? 0)
    })
  }

  const port = await freePort()
  start('control', [], ['control', '--port', String(port)], {
    DATABASE_URL: database.url,
    NATS_URL: busUrl('control'),
    MOTE_SECRET_KEY: 'programs-'.repeat(5),
    MOTE_CAPTCHA: 'off',
  })
  const anonymous = api(`http://127.0.0.1:${port}`)
  const untilOr = async (condition: () => Promise<boolean>, options: UntilOptions) => {
    await until(condition, options).catch((cause: unknown) => {
      throw new Error(`${String(cause)}\n${output.slice(-8).join('\n')}`, { cause })
    })
  }
  const isReady = async () => (await anonymous.get('/v1/health/ready')).status === 200
  await untilOr(isReady, { timeoutMs: 90_000, what: 'the control plane to be ready' })
  const account = { email: 'operator@example.com', password: 'quartz-otter-lantern-42' }
  await anonymous.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
  const admin = anonymous.as((await anonymous.post('/v1/auth/login', account)).body.token)
  const all = undo.move()
  return {
    dir,
    admin,
    until: untilOr,
    startAgent: (hostId, args, inside = []) => {
      const data = join(dir, hostId)
      const own = ['agent', '--stop-vms', '--host-id', hostId, '--data', data]
      start(`agent ${hostId}`, inside, [...own, ...args], { NATS_URL: busUrl(`host-${hostId}`) })
    },
    startGateway: (args, inside = []) =>
      start('gateway', inside, ['gateway', ...args], { NATS_URL: busUrl(`gateway-${gatewayId}`) }),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** Returns true for warnings and errors of our programs, and for output that is not a log line. */
const isComplaint = (line: string) => line !== '' && !/^\{"level":[1-3]0,/.test(line)

/** Time before a program is killed, long enough for an agent to stop its VMs. */
const patienceMs = 20_000

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs)
  await exit
  clearTimeout(timer)
}
