/** An installation with two control planes, agents and gateways as built programs, on one PostgreSQL and one NATS. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programFlags } from '../../scripts/build.mjs'
import { natsAuthorization } from '../../src/bus/permissions.ts'
import { newId } from '../../src/lib/ids.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { recordOutput } from '../support/log.ts'
import { startNatsServer } from '../support/nats.ts'
import { startReaper } from '../support/reaper.ts'
import { until } from '../support/wait.ts'
import { freePort } from '../support/free-port.ts'

const password = 'secret'
const gatewayHosts = ['127.0.0.1', '127.0.0.2'] as const

export interface RunningProgram {
  readonly name: string
  readonly pid: number
  /** URL of the program's Prometheus metrics; undefined for a third-party program. */
  readonly metricsUrl: string | undefined
  /** False once the program has exited. */
  runs(): boolean
}

export interface Installation extends AsyncDisposable {
  readonly programs: readonly RunningProgram[]
  readonly databaseUrl: string
  /** Base URLs of the control planes. */
  readonly planes: readonly string[]
  readonly gatewayPorts: readonly number[]
  /** IP addresses of the gateways: each needs its own, because all listen on the ports of TCP services. */
  readonly gatewayHosts: readonly string[]
  /** Base address of the registry that images are pushed to; undefined if docker-registry is not installed. */
  readonly registryUrl: string | undefined
  /** URL of NATS' monitoring endpoint. */
  readonly natsUrl: string
  /** The last output of the programs, for error messages. */
  lately(): string
}

/**
 * @param main path of the built programs
 * @param databaseUrl a migrated database
 */
export async function startInstallation(main: string, databaseUrl: string): Promise<Installation> {
  await using cleanup = new AsyncDisposableStack()
  const reaper = startReaper()
  cleanup.defer(() => reaper.finish())
  const dir = await mkdtemp(join(tmpdir(), 'mote-endurance-'))
  cleanup.defer(() => rm(dir, { recursive: true, force: true }))
  // The registry must reach its files: a control plane that runs as root starts it under another account.
  await chmod(dir, 0o711)
  const hostIds = [newId(), newId()]
  const roles = [
    { kind: 'control' } as const,
    ...['edge-0', 'edge-1'].map(id => ({ kind: 'gateway', id }) as const),
    ...hostIds.map(id => ({ kind: 'host', id }) as const),
  ]
  const monitorPort = await freePort()
  const authorization = natsAuthorization(roles.map(role => ({ role, password })))
  const nats = cleanup.use(await startNatsServer({ config: `http: 127.0.0.1:${monitorPort}\n${authorization}` }))
  const natsAs = (user: string) => ({ NATS_URL: nats.url.replace('//', `//${user}:${password}@`) })
  const output: string[] = []
  const children: ChildProcess[] = []
  cleanup.defer(async () => void (await Promise.all(children.map(ended))))

  const start = async (name: string, args: readonly string[], env: Readonly<Record<string, string>>) => {
    const metricsPort = await freePort()
    const child = spawn(process.execPath, [...programFlags, main, ...args, '--metrics-port', String(metricsPort)], {
      env: { PATH: process.env['PATH'], HOME: dir, MOTE_LOG_LEVEL: 'info', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.push(child)
    reaper.killAtEnd(child.pid ?? 0)
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        recordOutput(text)
        output.push(`${name}: ${text}`)
        if (output.length > 200) output.shift()
      })
    return {
      name,
      pid: child.pid ?? 0,
      metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
      runs: () => child.exitCode === null && child.signalCode === null,
    }
  }
  const numbers = [0, 1] as const
  const planePorts = await Promise.all(numbers.map(freePort))
  const gatewayPorts = await Promise.all(numbers.map(freePort))
  const registryPort = (await hasProgram('docker-registry')) ? await freePort() : undefined
  const tcpPort = String(await freePort())
  const tcp = { MOTE_TCP_PORTS: `${tcpPort}-${tcpPort}` }
  const rates = Object.fromEntries(
    ['TENANT', 'ANONYMOUS', 'LOGIN', 'CREATES'].map(limit => [`MOTE_RATE_${limit}`, '1000000']),
  )
  const planeEnv = {
    DATABASE_URL: databaseUrl,
    MOTE_SECRET_KEY: 'endurance-'.repeat(4),
    MOTE_SOURCES: join(dir, 'sources'),
    MOTE_CAPTCHA: 'off',
    MOTE_DATA: join(dir, 'control'),
    // One control plane runs the registry, but both sign tokens for it.
    ...(registryPort === undefined ? {} : { MOTE_REGISTRY_URL: `http://localhost:${registryPort}` }),
    ...tcp,
    ...natsAs('control'),
    ...rates,
  }
  const startPlane = (n: number) => {
    const registry = n === 0 && registryPort !== undefined ? ['--registry-port', String(registryPort)] : []
    return start(`control-${n}`, ['control', '--port', String(planePorts[n]), ...registry], planeEnv)
  }
  const startAgent = (n: number) => {
    const place = ['--host-id', hostIds[n] ?? '', '--host-name', `host-${n}`, '--data', join(dir, `host-${n}`)]
    return start(`agent-${n}`, ['agent', '--hypervisor', 'fake', ...place], natsAs(`host-${hostIds[n]}`))
  }
  const startGateway = (n: number) => {
    const place = ['--gateway-port', String(gatewayPorts[n]), '--data', join(dir, `gateway-${n}`), '--ssh-port', '0']
    const listen = ['--listen', gatewayHosts[n] ?? '']
    return start(`gateway-${n}`, ['gateway', ...place, ...listen], { ...tcp, ...natsAs(`gateway-edge-${n}`) })
  }
  const started = await Promise.all([
    ...numbers.map(startPlane),
    ...numbers.map(startAgent),
    ...numbers.map(startGateway),
  ])
  const planes = planePorts.map(port => `http://127.0.0.1:${port}`)
  const lately = () => output.slice(-20).join('')
  for (const plane of planes)
    await until(async () => (await fetch(`${plane}/v1/health/ready`)).status === 200, {
      timeoutMs: 60_000,
      everyMs: 50,
      what: `${plane} to be ready`,
    }).catch((cause: unknown) => Promise.reject(new Error(lately(), { cause })))
  const registry = await registryOf(started[0]?.pid ?? 0)
  const all = cleanup.move()
  return {
    programs: [...started, ...registry],
    gatewayHosts,
    registryUrl: registryPort === undefined ? undefined : `http://localhost:${registryPort}`,
    databaseUrl,
    planes,
    gatewayPorts,
    natsUrl: `http://127.0.0.1:${monitorPort}`,
    lately,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** Returns the registry process that a control plane has started, if any. */
async function registryOf(plane: number): Promise<RunningProgram[]> {
  const children = (await readFile(`/proc/${plane}/task/${plane}/children`, 'utf8')).trim().split(' ').filter(Boolean)
  const found: RunningProgram[] = []
  for (const child of children) {
    const line = await readFile(`/proc/${child}/cmdline`, 'latin1').catch(() => '')
    const runs = () => existsSync(`/proc/${child}`)
    if (line.includes('docker-registry'))
      found.push({ name: 'registry', pid: Number(child), metricsUrl: undefined, runs })
  }
  return found
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  const late = setTimeout(() => child.kill('SIGKILL'), 10_000)
  await exit
  clearTimeout(late)
}
