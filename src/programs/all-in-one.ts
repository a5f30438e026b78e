/**
 * `mote up`: runs all programs in one process with embedded services (database, bus, registry), each of which a setting
 * can replace.
 */
import type { Logger } from 'pino'
import { createTally } from '../lib/tally.ts'
import type { HypervisorOffer } from '../contract/agent.ts'
import { agentClient } from '../control/hosts/index.ts'
import { ensureSecret, openAgent, openBus, openControl, openDatabase, openGateway } from './parts.ts'
import type { OpenedRegistry } from './registries.ts'
import type { ProgramSettings } from './settings.ts'

export interface AllInOne {
  readonly apiUrl: string
  readonly registry: OpenedRegistry
  readonly apiPort: number
  readonly gatewayPort: number
  /**
   * Resolves when this host has a usable hypervisor. At the first start, it also builds the guest kernel.
   * @throws Error with the reason if the host has none
   */
  hostReady(): Promise<readonly HypervisorOffer[]>
  /** Returns the number of VMs on this host, in any state. */
  vmCount(): Promise<number>
  /** Stops all programs. VMs keep running unless `stopVms` is set. */
  stop(options?: { readonly stopVms?: boolean }): Promise<void>
}

export interface Progress {
  /** Runs a named step, and reports when it starts and how long it took. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>
}

const quiet: Progress = { step: (_name, work) => work() }

/** Starts all programs. @throws Error if one cannot start; the others are stopped before that */
export async function startAllInOne(
  settings: ProgramSettings,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
  progress: Progress = quiet,
): Promise<AllInOne> {
  await using starting = new AsyncDisposableStack()
  let stopVms = false
  const secretFile = await ensureSecret(settings)
  const db = await progress.step('PostgreSQL', () =>
    openDatabase(starting, settings, log.child({ program: 'postgres' })),
  )
  const bus = await openBus(starting, settings, 'mote', log)
  const refused = createTally()
  const { control, registry } = await progress.step('Control plane', () =>
    openControl(starting, settings, env, { db, bus, log: log.child({ program: 'control' }), secretFile, refused }),
  )
  const gateway = await progress.step('Gateway', () =>
    openGateway(starting, settings, { bus, log: log.child({ program: 'gateway' }) }, env),
  )
  const agent = await progress.step('Host agent', () =>
    openAgent(
      starting,
      settings,
      { bus, log: log.child({ program: 'agent' }), refused, registryUrl: registry.url },
      () => stopVms,
    ),
  )
  const running = starting.move()
  return {
    apiUrl: control.url,
    registry,
    apiPort: control.port,
    gatewayPort: gateway.port,
    async hostReady() {
      const offers = await agent.probed
      if (offers.some(offer => offer.available)) return offers
      const reasons = offers.map(({ name, detail }) => `${name}: ${detail}`).join('; ')
      throw new Error(`This host cannot run VMs (${reasons}). See: mote doctor`)
    },
    vmCount: async () => (await agentClient(bus, agent.hostId).list()).filter(vm => vm.state !== 'absent').length,
    async stop(options) {
      stopVms = options?.stopVms ?? false
      await running.disposeAsync()
    },
  }
}
