import { resolve } from 'node:path'
import { Command } from 'commander'
import type { Logger } from 'pino'
import { controlSettings, secretHelp } from '../../control/base/settings.ts'
import { createTally } from '../../lib/tally.ts'
import { productVersion } from '../../lib/version.ts'
import { keepCompiledCode } from '../../programs/compile-cache.ts'
import type { AllInOne } from '../../programs/all-in-one.ts'
import { isolationText, preferred } from '../../programs/isolation-text.ts'
import {
  type ProgramSettingName,
  type ProgramSettings,
  programSettings,
  readSettings,
} from '../../programs/settings.ts'

type Flags = Partial<Record<ProgramSettingName, string>> & {
  readonly stopVms?: boolean
  readonly enableForwarding?: boolean
}

const withSettings = (command: Command, names: readonly ProgramSettingName[]): Command => {
  for (const name of names) {
    const { flag, env, fallback, help } = programSettings[name]
    command.option(flag, `${help} (${env}${fallback ? `, default ${fallback}` : ''})`)
  }
  return command
}

/** Prints the addresses for people. The log lines printed before are for programs. */
function welcome({ apiUrl, gatewayPort, hostReady, registry }: AllInOne, data: string): void {
  const images =
    registry.url === '' ? (registry.note ?? 'none') : `${new URL(registry.url).host}  (mote registry login)`
  process.stdout.write(`
  Mote ${productVersion}

  Dashboard  ${apiUrl}  (create an account; the first one is Admin)
  Apps       http://<app>-<project>.localhost:${gatewayPort}
  Registry   ${images}
  Data       ${resolve(data)}
  Ctrl-C stops Mote and keeps the data.

`)
  // Print the isolation once the host has tested its hypervisors, which at the first start includes building a kernel.
  hostReady().then(
    offers => {
      const offer = preferred(offers)
      if (offer) process.stdout.write(`  Isolation  ${isolationText(offer)}\n\n`)
    },
    (cause: unknown) => process.stdout.write(`  ${cause instanceof Error ? cause.message : String(cause)}\n\n`),
  )
}

const controlHelp = () =>
  `\nSettings of the control plane (environment):\n${Object.values(controlSettings)
    .map(({ env, fallback, help }) => `  ${env.padEnd(24)} ${help} (default ${JSON.stringify(fallback)})`)
    .join('\n')}\n  ${secretHelp}`

const everything = Object.keys(programSettings).filter((name): name is ProgramSettingName => name in programSettings)

export const programCommands = (): Command[] => [upCommand(), controlCommand(), agentCommand(), gatewayCommand()]

function upCommand(): Command {
  return withSettings(new Command('up'), everything)
    .description(
      'Run a control plane, a gateway and an agent in this process, with a private PostgreSQL and an in-process bus',
    )
    .option('--stop-vms', 'also stop the VMs when this process ends')
    .addHelpText('after', controlHelp())
    .action(async (flags: Flags) => {
      const settings = readSettings(flags, process.env)
      keepCompiledCode(settings)
      const { createLog } = await import('../../programs/log.ts')
      const { startAllInOne } = await import('../../programs/all-in-one.ts')
      const { runProgram } = await import('../../programs/run.ts')
      const log = createLog({ level: settings.logLevel })
      await runProgram(log, async scope => {
        const all = await startAllInOne(settings, process.env, log)
        scope.defer(() => all.stop({ stopVms: flags.stopVms ?? false }))
        log.info(
          { api: all.apiUrl, docs: `${all.apiUrl}/v1/docs`, gateway: `http://localhost:${all.gatewayPort}` },
          'mote is up',
        )
        if (process.stdout.isTTY) welcome(all, settings.data)
      })
    })
}

function controlCommand(): Command {
  return withSettings(new Command('control'), [
    'port',
    'gatewayPort',
    'registryPort',
    'metricsPort',
    'listen',
    'databaseUrl',
    'natsUrl',
    'logLevel',
  ])
    .description('Run a control plane; needs DATABASE_URL and NATS_URL')
    .addHelpText('after', controlHelp())
    .action((flags: Flags) =>
      single(flags, ['databaseUrl', 'natsUrl'], async (scope, settings, log) => {
        const { openBus, openControl, openDatabase } = await import('../../programs/parts.ts')
        const db = await openDatabase(scope, settings, log)
        const bus = await openBus(scope, settings, 'control', log)
        const { control } = await openControl(scope, settings, process.env, { db, bus, log })
        log.info({ api: control.url }, 'the control plane is up')
      }),
    )
}

function agentCommand(): Command {
  return withSettings(new Command('agent'), [
    'data',
    'hypervisor',
    'network',
    'hostName',
    'hostId',
    'migrationHost',
    'meshEndpoint',
    'guestSubnet',
    'labels',
    'egressAllow',
    'egressDeny',
    'guestConnections',
    'guestNewConnections',
    'guestPackets',
    'guestTrafficMib',
    'guestDnsQueries',
    'guestDiskMib',
    'guestDiskOperations',
    'privateRegistries',
    'buildCa',
    'cache',
    'kernel',
    'templateMib',
    'baseMib',
    'toolchainMib',
    'metricsPort',
    'natsUrl',
    'logLevel',
  ])
    .description('Run the agent of this host; needs NATS_URL')
    .option('--stop-vms', 'also stop the VMs when the agent exits')
    .option('--enable-forwarding', 'only enable packet forwarding on this host, as root, then exit')
    .action(async (flags: Flags) => {
      if (flags.enableForwarding) {
        // The systemd unit runs this command before it starts the agent, which may not change kernel settings.
        const { enableForwarding } = await import('../../agent/net/devices.ts')
        await enableForwarding()
        return
      }
      await single(flags, ['natsUrl'], async (scope, settings, log) => {
        const { openAgent, openBus, openWatch } = await import('../../programs/parts.ts')
        const refused = createTally()
        await openWatch(scope, settings, log, refused)
        const bus = await openBus(scope, settings, 'agent', log)
        const program = await openAgent(scope, settings, { bus, log, refused }, () => flags.stopVms ?? false)
        log.info({ hostId: program.hostId }, 'the agent is up')
      })
    })
}

function gatewayCommand(): Command {
  return withSettings(new Command('gateway'), [
    'data',
    'gatewayPort',
    'sshPort',
    'listen',
    'metricsPort',
    'natsUrl',
    'logLevel',
  ])
    .description('Run an edge gateway; needs NATS_URL')
    .action((flags: Flags) =>
      single(flags, ['natsUrl'], async (scope, settings, log) => {
        const { openBus, openGateway, openWatch } = await import('../../programs/parts.ts')
        await openWatch(scope, settings, log)
        const bus = await openBus(scope, settings, 'gateway', log)
        const program = await openGateway(scope, settings, { bus, log })
        log.info({ port: program.port }, 'the gateway is up')
      }),
    )
}

type Start = (scope: AsyncDisposableStack, settings: ProgramSettings, log: Logger) => Promise<void>

/**
 * Runs one program of an installation with several hosts. Programs communicate only through PostgreSQL and NATS, so
 * their URLs are required.
 */
async function single(flags: Flags, needed: readonly ProgramSettingName[], start: Start): Promise<void> {
  const settings = readSettings(flags, process.env)
  const missing = needed.filter(name => settings[name] === '')
  if (missing.length > 0)
    throw new Error(
      `set ${missing.map(name => `${programSettings[name].env} (${programSettings[name].flag})`).join(' and ')}; ` +
        'to run everything in one process use: mote up',
    )
  keepCompiledCode(settings)
  const { createLog } = await import('../../programs/log.ts')
  const { runProgram } = await import('../../programs/run.ts')
  const log = createLog({ level: settings.logLevel })
  await runProgram(log, scope => start(scope, settings, log))
}
