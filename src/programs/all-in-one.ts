/** `mote up`: every program in one process on embedded defaults, each of them replaceable by a setting. */
import type { Logger } from 'pino'
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
  const releases: ((stopVms: boolean) => Promise<void>)[] = []
  const release = async (stopVms: boolean) => {
    for (const undo of releases.splice(0).reverse()) await undo(stopVms)
  }
  try {
    const secretFile = await ensureSecret(settings)
    const database = await progress.step('PostgreSQL', () => openDatabase(settings, log.child({ program: 'postgres' })))
    releases.push(() => database.stop())
    const bus = await openBus(settings, 'mote', log)
    releases.push(() => bus.close())
    const control = await progress.step('Control plane', () =>
      openControl(settings, env, { db: database.value, bus, log: log.child({ program: 'control' }), secretFile }),
    )
    releases.push(() => control.stop())
    const gateway = await progress.step('Gateway', () =>
      openGateway(settings, { bus, log: log.child({ program: 'gateway' }) }, env),
    )
    releases.push(() => gateway.stop())
    const agent = await progress.step('Host agent', () =>
      openAgent(settings, { bus, log: log.child({ program: 'agent' }) }),
    )
    releases.push(stopVms => agent.stop({ stopVms }))
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
      stop: async options => release(options?.stopVms ?? false),
    }
  } catch (cause) {
    await release(false)
    throw cause
  }
}
