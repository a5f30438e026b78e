/** `mote up`: every program in one process on embedded defaults, each of them replaceable by a setting. */
import type { Logger } from 'pino'
import { createTally } from '../lib/tally.ts'
import { agentClient } from '../control/hosts/index.ts'
import { ensureSecret, openAgent, openBus, openControl, openDatabase, openGateway } from './parts.ts'
import type { ProgramSettings } from './settings.ts'

export interface AllInOne {
  readonly apiUrl: string
  readonly apiPort: number
  readonly gatewayPort: number
  /**
   * Resolves when this host offers a hypervisor; the first time the guest kernel is made for that.
   * @throws Error that says why it cannot
   */
  hostReady(): Promise<void>
  /** How many virtual machines this host has, in any state. */
  vmCount(): Promise<number>
  /** VMs keep running unless `stopVms`. */
  stop(options?: { readonly stopVms?: boolean }): Promise<void>
}

export interface Progress {
  /** Tells that a named step has begun, does it, tells how long it took. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>
}

const quiet: Progress = { step: (_name, work) => work() }

/** @throws Error when a part cannot start; the others have been stopped by then. */
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
  const control = await progress.step('Control plane', () =>
    openControl(starting, settings, env, { db, bus, log: log.child({ program: 'control' }), secretFile, refused }),
  )
  const gateway = await progress.step('Gateway', () =>
    openGateway(starting, settings, { bus, log: log.child({ program: 'gateway' }) }, env),
  )
  const agent = await progress.step('Host agent', () =>
    openAgent(starting, settings, { bus, log: log.child({ program: 'agent' }), refused }, () => stopVms),
  )
  const running = starting.move()
  return {
    apiUrl: control.url,
    apiPort: control.port,
    gatewayPort: gateway.port,
    async hostReady() {
      const offers = await agent.probed
      if (offers.some(offer => offer.available)) return
      const reasons = offers.map(({ name, detail }) => `${name}: ${detail}`).join('; ')
      throw new Error(`This machine cannot run virtual machines (${reasons}). See: mote doctor`)
    },
    vmCount: async () => (await agentClient(bus, agent.hostId).list()).filter(vm => vm.state !== 'absent').length,
    async stop(options) {
      stopVms = options?.stopVms ?? false
      await running.disposeAsync()
    },
  }
}
