/**
 * Opens the parts of a program from its settings. Each part registers its release as soon as it is open, so that a
 * later failure releases everything.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import type { Logger } from 'pino'
import { type AgentConfig, agentConfig } from '../agent/base/config.ts'
import { parsePools } from '../agent/base/pool-config.ts'
import type { Agent } from '../agent/main.ts'
import type { Bus } from '../bus/bus.ts'
import { createMemoryBus } from '../bus/memory.ts'
import { connectNatsBus } from '../bus/nats.ts'
import { parseControlConfig } from '../control/base/config.ts'
import type { Control } from '../control/main.ts'
import { whileAnswering } from '../db/answering.ts'
import { connectDb } from '../db/connect.ts'
import type { Db } from '../db/db.ts'
import { startEmbeddedPostgres } from '../db/embedded.ts'
import { migrate } from '../db/migrate.ts'
import { parseGatewayEnv } from '../gateway/config.ts'
import type { Gateway } from '../gateway/main.ts'
import { parseLabels } from '../lib/labels.ts'
import { formatCidr, parseCidr } from '../lib/cidr.ts'
import { isUuid } from '../lib/ids.ts'
import type { Tally } from '../lib/tally.ts'
import { logRetentionOf } from './log-retention.ts'
import { type OpenedRegistry, openRegistry, registriesOf } from './registries.ts'
import { namingPorts } from './start-failure.ts'
import {
  limitOf,
  mebibytesOf,
  portOf,
  type ProgramSettingName,
  type ProgramSettings,
  programSettings,
} from './settings.ts'
import { vmmProgramsOf } from './vmm-programs.ts'

type Env = Readonly<Record<string, string | undefined>>

/** Opens and migrates the database: `DATABASE_URL`, or a private PostgreSQL server in the data directory. */
export async function openDatabase(scope: AsyncDisposableStack, settings: ProgramSettings, log: Logger): Promise<Db> {
  const url = settings.databaseUrl || (await openEmbedded(scope, settings, log))
  const applied = await whileAnswering(url, () => migrate({ url }))
  if (applied.length > 0) log.info({ migrations: applied.length, newest: applied.at(-1) }, 'the database was migrated')
  const db = await whileAnswering(url, () => connectDb({ url, log }))
  scope.defer(() => db.close())
  return db
}

async function openEmbedded(scope: AsyncDisposableStack, settings: ProgramSettings, log: Logger): Promise<string> {
  const server = await startEmbeddedPostgres({ dataDir: join(resolve(settings.data), 'postgres'), log })
  scope.defer(() => server.stop())
  return server.url
}

/** Uses NATS if `NATS_URL` is set; otherwise all programs must run in this process. */
export async function openBus(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  name: 'mote' | 'control' | 'agent' | 'gateway',
  log: Logger,
): Promise<Bus> {
  // Only a control plane may create streams. Agents and gateways lack the permission.
  const manageStreams = name === 'control' || name === 'mote'
  const bus = settings.natsUrl
    ? await connectNatsBus({ servers: settings.natsUrl.split(','), name, log, manageStreams })
    : memoryBus(settings, log)
  scope.defer(() => bus.close())
  return bus
}

function memoryBus(settings: ProgramSettings, log: Logger): Bus {
  const busMib = mebibytesOf(programSettings.busMib, settings.busMib)
  if (busMib < 1 || busMib > 1024)
    throw new Error(`${programSettings.busMib.env}: "${busMib}" is not from 1 to 1024 MiB`)
  return createMemoryBus({ log, maxStreamBytes: busMib * 1024 * 1024 })
}

const secretFile = (settings: ProgramSettings) => join(resolve(settings.data), 'secret.key')

/**
 * Returns the path of the file with the installation's secret. At the first start of `mote up`, creates the file with a
 * random secret.
 */
export async function ensureSecret(settings: ProgramSettings): Promise<string> {
  const file = secretFile(settings)
  if (!existsSync(file)) {
    await mkdir(resolve(settings.data), { recursive: true, mode: 0o711 })
    await writeFile(file, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' })
  }
  return file
}

export async function openControl(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  env: Env,
  parts: {
    readonly db: Db
    readonly bus: Bus
    readonly log: Logger
    readonly secretFile?: string
    readonly refused?: Tally
  },
): Promise<{ readonly control: Control; readonly registry: OpenedRegistry }> {
  const port = portOf(programSettings.port, settings.port)
  const gatewayPort = portOf(programSettings.gatewayPort, settings.gatewayPort)
  const given = parseControlConfig(
    {
      MOTE_PUBLIC_URL: `http://localhost:${port}`,
      MOTE_GATEWAY_URL: `http://localhost:${gatewayPort}`,
      ...(settings.sshPort ? { MOTE_SSH_PORT: settings.sshPort } : {}),
      ...env,
      MOTE_SOURCES: env.MOTE_SOURCES || join(resolve(settings.data), 'sources'),
    },
    parts.secretFile,
  )
  const registry = await openRegistry(scope, settings, { config: given, db: parts.db, log: parts.log })
  const config = { ...given, registryUrl: registry.url }
  // Import the control plane only when it is started, because its imports take two thirds of the start time.
  const { startControl } = await import('../control/main.ts')
  const metrics: { metricsPort?: number } = settings.metricsPort
    ? { metricsPort: portOf(programSettings.metricsPort, settings.metricsPort) }
    : {}
  const ports = [
    [port, programSettings.port],
    [metrics.metricsPort ?? 0, programSettings.metricsPort],
  ] as const
  const control = await namingPorts(ports, () =>
    parts.db.whileAnswering(() => startControl({ ...parts, config, host: settings.listen, port, ...metrics })),
  )
  scope.defer(() => control.stop())
  return { control, registry }
}

/**
 * Monitors a process without a control plane (which monitors its own process): stalls of its event loop, and metrics.
 * @param refused number of guest requests that its agent has refused, by kind
 */
export async function openWatch(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  log: Logger,
  refused?: Tally,
): Promise<void> {
  const { watchProcess } = await import('./watch.ts')
  const port = settings.metricsPort ? portOf(programSettings.metricsPort, settings.metricsPort) : undefined
  const watch = await namingPorts([[port ?? 0, programSettings.metricsPort]], () => watchProcess(log, port, refused))
  scope.defer(() => watch.stop())
}

/** Parses the setting with the volume pools. @throws Error naming the setting */
function poolsOf(text: string): AgentConfig['pools'] {
  try {
    return parsePools(text)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`${programSettings.pools.env} (${programSettings.pools.flag}): ${why}`, { cause })
  }
}

/** Parses the setting with the host's labels. @throws Error naming the setting */
function labelsOf(text: string): AgentConfig['labels'] {
  try {
    return { ...parseLabels(text) }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`${programSettings.labels.env} (${programSettings.labels.flag}): ${why}`, { cause })
  }
}

const hypervisorChoices = ['auto', 'qemu', 'firecracker', 'cloud-hypervisor', 'gvisor', 'fake'] as const

/** Starts the agent. @param stopVms called at shutdown; returns whether to stop the VMs, too */
export async function openAgent(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  parts: { readonly bus: Bus; readonly log: Logger; readonly refused?: Tally; readonly registryUrl?: string },
  stopVms: () => boolean,
): Promise<Agent> {
  const data = resolve(settings.data)
  const { startAgent } = await import('../agent/main.ts')
  const agent = await startAgent(
    agentConfig({
      dataDir: join(data, 'agent'),
      imageDir: join(data, 'images'),
      hostName: settings.hostName || hostname(),
      hostId: hostIdOf(settings.hostId),
      migrationHost: settings.migrationHost,
      buildCa: settings.buildCa === '' ? null : resolve(settings.buildCa),
      pools: poolsOf(settings.pools),
      registries: registriesOf(settings, parts.registryUrl),
      meshEndpoint: settings.meshEndpoint || null,
      subnet: settings.guestSubnet === '' ? null : subnetOf(settings.guestSubnet),
      labels: labelsOf(settings.labels),
      egressAllow: networksOf(programSettings.egressAllow.env, settings.egressAllow, [4]),
      egressDeny: networksOf(programSettings.egressDeny.env, settings.egressDeny, [4, 6]),
      ...guestLimitsOf(settings),
      logRetention: logRetentionOf(settings),
      hypervisor: oneOf(programSettings.hypervisor.env, settings.hypervisor, hypervisorChoices),
      programs: vmmProgramsOf(settings),
      network: oneOf(programSettings.network.env, settings.network, ['auto', 'tap', 'user']),
      ...(settings.cache ? { cacheDir: resolve(settings.cache) } : {}),
      kernel: kernelOf(settings.kernel),
      templateMib: mebibytesOf(programSettings.templateMib, settings.templateMib),
      baseMib: mebibytesOf(programSettings.baseMib, settings.baseMib),
      toolchainMib: mebibytesOf(programSettings.toolchainMib, settings.toolchainMib),
    } satisfies Partial<AgentConfig> & { dataDir: string; hostName: string }),
    parts,
  )
  scope.defer(() => agent.stop({ stopVms: stopVms() }))
  return agent
}

/** Returns the limits on the network and disk use of VMs. @throws Error naming the invalid setting */
export function guestLimitsOf(settings: ProgramSettings): Pick<AgentConfig, 'guestLimits' | 'diskLimits'> {
  const limit = (name: ProgramSettingName, most?: number) => limitOf(programSettings[name], settings[name], most)
  return {
    guestLimits: {
      connections: limit('guestConnections'),
      newConnections: limit('guestNewConnections'),
      packets: limit('guestPackets'),
      mibPerSecond: limit('guestTrafficMib', 2048),
      nameQueries: limit('guestDnsQueries'),
    },
    diskLimits: { mibPerSecond: limit('guestDiskMib'), operations: limit('guestDiskOperations') },
  }
}

export async function openGateway(
  scope: AsyncDisposableStack,
  settings: ProgramSettings,
  parts: { readonly bus: Bus; readonly log: Logger },
  env: Env = process.env,
): Promise<Gateway> {
  const port = portOf(programSettings.gatewayPort, settings.gatewayPort)
  // Store the SSH host key in the data directory, because clients refuse a changed key.
  const bastion = settings.sshPort
    ? {
        host: settings.listen,
        port: portOf(programSettings.sshPort, settings.sshPort),
        hostKeyFile: join(resolve(settings.data), 'gateway', 'ssh_host_ed25519_key'),
      }
    : undefined
  const { startGateway } = await import('../gateway/main.ts')
  const ports = [
    [port, programSettings.gatewayPort],
    [bastion?.port ?? 0, programSettings.sshPort],
  ] as const
  const gateway = await namingPorts(ports, () =>
    startGateway({ ...parseGatewayEnv(env), host: settings.listen, port, bastion }, parts),
  )
  scope.defer(() => gateway.stop())
  return gateway
}

/** Checks the value of the setting for the guest kernel. @throws Error naming the setting */
function kernelOf(value: string): string {
  if (value === 'shipped' || value === 'distribution') return value
  if (!existsSync(join(value, 'vmlinux')))
    throw new Error(
      `${programSettings.kernel.env}: "${value}" is neither shipped, distribution nor a directory with vmlinux`,
    )
  return resolve(value)
}

function subnetOf(value: string): string {
  const cidr = parseCidr(value)
  if (cidr?.family !== 4 || cidr.prefix !== 16)
    throw new Error(`${programSettings.guestSubnet.env}: "${value}" is not an IPv4 /16 such as 10.213.0.0/16`)
  return formatCidr(cidr)
}

function networksOf(name: string, value: string, families: readonly number[]): string[] {
  const texts = value.split(',').map(text => text.trim())
  return texts.filter(Boolean).map(text => {
    const cidr = parseCidr(text)
    if (!cidr || !families.includes(cidr.family))
      throw new Error(`${name}: "${text}" is not a network such as 10.20.0.0/16`)
    return formatCidr(cidr)
  })
}

function hostIdOf(value: string): string | null {
  if (value !== '' && !isUuid(value))
    throw new Error(`${programSettings.hostId.env}: "${value}" is not an id from: mote host add`)
  return value === '' ? null : value
}

function oneOf<const T extends readonly string[]>(name: string, value: string, choices: T): T[number] {
  const found = choices.find(choice => choice === value)
  if (found === undefined) throw new Error(`${name}: "${value}" is not one of ${choices.join(', ')}`)
  return found
}
