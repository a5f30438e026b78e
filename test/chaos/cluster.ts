/** An installation of several machines in separate processes, each of which may be killed at any moment. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Bus } from '../../src/bus/bus.ts'
import { connectNatsBus } from '../../src/bus/nats.ts'
import { writeSampleImage } from '../../src/agent/image/sample.ts'
import { natsAuthorization } from '../../src/bus/permissions.ts'
import { newId } from '../../src/lib/ids.ts'
import { type NatsServer, startNatsServer } from '../support/nats.ts'
import { moteProgram } from '../support/program.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'
import { clearHosts } from './left-over.ts'
import { freePort } from '../support/free-port.ts'

const password = 'secret'
export const secretKey = 'chaos-'.repeat(8)

export interface Program {
  readonly name: string
  readonly kind: 'control' | 'agent' | 'bus'
  kill(): Promise<void>
  start(): void
}

export interface Cluster extends AsyncDisposable {
  readonly programs: readonly Program[]
  /** Base addresses of the control planes. */
  readonly planes: readonly string[]
  readonly hostIds: readonly string[]
  /** The hosts that run real VMs. */
  readonly realHostIds: readonly string[]
  /** Directory of all files of the installation. Its path is in the command line of every process that it starts. */
  readonly dir: string
  readonly bus: Bus
  /** The last output of the programs, for error messages. */
  lately(): string
}

/** Hypervisor of hosts with real VMs. `runsc`: path of gVisor's program. */
export type RealHypervisor = { readonly name: 'qemu' } | { readonly name: 'gvisor'; readonly runsc: string }

export interface ClusterOptions {
  readonly databaseUrl: string
  readonly planes: number
  /** Number of hosts with simulated VMs. */
  readonly hosts: number
  /** Number of hosts with real VMs and the image `oci:hello`. */
  readonly realHosts: number
  readonly hypervisor: RealHypervisor
  readonly hostTimeoutSeconds: number
}

export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  await using cleanup = new AsyncDisposableStack()
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  const dir = await mkdtemp(join(tmpdir(), 'mote-chaos-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  cleanup.defer(() => clearHosts(dir))
  const hostIds = Array.from({ length: options.hosts + options.realHosts }, newId)
  const realHostIds = hostIds.slice(options.hosts)
  const roles = [{ kind: 'control' } as const, ...hostIds.map(id => ({ kind: 'host', id }) as const)]
  const nats = await startNatsServer({ config: natsAuthorization(roles.map(role => ({ role, password }))) })
  cleanup.defer(() => nats.stop())
  const url = (user: string) => nats.url.replace('nats://', `nats://${user}:${password}@`)
  const output: string[] = []
  const program = (name: string, kind: Program['kind'], args: readonly string[], env: Record<string, string>) => {
    let child: ChildProcess | undefined
    const kill = async () => {
      if (!child) return
      const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
      child.kill('SIGKILL')
      await ended
      reaper.forget(child.pid ?? 0)
      child = undefined
    }
    cleanup.defer(kill)
    const start = () => {
      const { PATH, NODE_COMPILE_CACHE } = process.env
      child = spawn(process.execPath, [moteProgram, ...args], {
        env: { PATH, NODE_COMPILE_CACHE, HOME: dir, MOTE_LOG_LEVEL: 'error', ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      reaper.killAtEnd(child.pid ?? 0)
      for (const stream of [child.stdout, child.stderr])
        stream?.setEncoding('utf8').on('data', (text: string) => {
          output.push(`${name}: ${text}`)
          if (output.length > 200) output.shift()
        })
    }
    return { name, kind, kill, start }
  }
  const ports = await Promise.all(Array.from({ length: options.planes }, freePort))
  const rates = Object.fromEntries(
    ['TENANT', 'ANONYMOUS', 'LOGIN', 'CREATES'].map(name => [`MOTE_RATE_${name}`, '1000000']),
  )
  const controls = ports.map((port, n) =>
    program(`control-${n}`, 'control', ['control', '--port', String(port)], {
      DATABASE_URL: options.databaseUrl,
      NATS_URL: url('control'),
      ...rates,
      MOTE_SECRET_KEY: secretKey,
      MOTE_CAPTCHA: 'off',
      // With this factor, any two of the hosts have capacity for all VMs while the third host is down.
      MOTE_CPU_OVERCOMMIT: '64',
      MOTE_HOST_TIMEOUT: String(options.hostTimeoutSeconds),
    }),
  )
  for (const id of realHostIds) await writeSampleImage(join(dir, id, 'images', 'hello'))
  const agents = hostIds.map((id, n) => {
    const { hypervisor } = options
    const real = [hypervisor.name, '--cache', join(homedir(), '.cache', 'mote')]
    const machines = realHostIds.includes(id) ? real : ['fake']
    const name = ['--host-id', id, '--host-name', `host-${n}`, '--data', join(dir, id)]
    return program(`agent-${n}`, 'agent', ['agent', '--hypervisor', ...machines, ...name], {
      NATS_URL: url(`host-${id}`),
      ...(hypervisor.name === 'gvisor' ? { MOTE_RUNSC_BIN: hypervisor.runsc } : {}),
    })
  })
  const programs = [...controls, ...agents, restartable(nats)]
  for (const one of [...controls, ...agents]) one.start()
  const bus = await connectNatsBus({ servers: url('control'), name: 'chaos', log: pino({ level: 'silent' }) })
  cleanup.defer(() => bus.close())
  const planes = ports.map(port => `http://127.0.0.1:${port}`)
  for (const plane of planes)
    await until(async () => (await fetch(`${plane}/v1/health/ready`)).status === 200, {
      timeoutMs: 60_000,
      everyMs: 50,
      what: `${plane} to be ready; ${output.slice(-5).join('')}`,
    })
  const all = cleanup.move()
  return {
    programs,
    planes,
    hostIds,
    realHostIds,
    dir,
    bus,
    lately: () => output.slice(-20).join(''),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** Wraps the NATS server so that it can be killed and restarted with its stored data, like the other programs. */
function restartable(nats: NatsServer): Program {
  let back = Promise.withResolvers<void>()
  return {
    name: 'nats-server',
    kind: 'bus',
    async kill() {
      back = Promise.withResolvers()
      const down = Promise.withResolvers<void>()
      const until = () => (down.resolve(), back.promise)
      nats.restart(until).catch(down.reject)
      await down.promise
    },
    start: () => back.resolve(),
  }
}
