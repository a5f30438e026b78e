/**
 * Kills programs with -9 at random for ten minutes (MOTE_CHAOS_SECONDS) while users work, with a real nats-server and
 * a real PostgreSQL. This is a longer run of the tests in `test/chaos`.
 */
import { connectDb } from '../src/db/connect.ts'
import { pino } from 'pino'
import { hasProgram } from '../src/lib/programs.ts'
import { chaos } from '../test/chaos/chaos.ts'
import type { RealHypervisor } from '../test/chaos/cluster.ts'
import { driverCases } from '../test/support/agent/hypervisor.ts'
import { databaseUrl, startPrivateServer, templateName } from '../test/support/global-setup.ts'
import { natsMissing } from '../test/support/nats.ts'
import type { Benchmark } from './benchmark.ts'

const mostShown = 20
/**
 * Returns gVisor if it works on this computer, because emulated VMs would leave little CPU time for the other
 * programs; otherwise QEMU, if it is installed.
 */
async function realHypervisor(): Promise<RealHypervisor | undefined> {
  const sandboxes = (await driverCases()).find(({ config, skip }) => config.hypervisor === 'gvisor' && !skip)
  const runsc = sandboxes?.config.programs?.runsc
  if (runsc) return { name: 'gvisor', runsc }
  return (await hasProgram('qemu-system-x86_64')) ? { name: 'qemu' } : undefined
}
const seconds = Number(process.env['MOTE_CHAOS_SECONDS'] ?? 600)

export const chaosBenchmark: Benchmark = {
  name: 'chaos',
  goal: `after ${seconds} s in which processes are killed with SIGKILL, no resource is leaked, no write is lost, and all resources are in their desired state within 30 s`,
  unable: async () => natsMissing,
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    // Keep this process alive with a timer while it waits for child processes, because waiting alone does not keep it
    // alive.
    const awake = setInterval(() => undefined, 1000)
    cleanup.defer(() => clearInterval(awake))
    const server = cleanup.use(await startPrivateServer('embedded'))
    if (!server) throw new Error('no PostgreSQL server programs: run npm install')
    const url = databaseUrl(server.adminUrl, templateName)
    const db = await connectDb({ url, log: pino({ level: 'silent' }) })
    cleanup.defer(() => db.close())
    const hypervisor = await realHypervisor()
    const realHosts = hypervisor === undefined ? 0 : 2
    const result = await chaos({
      database: { url, db },
      seconds,
      seed: 1,
      killEveryMs: 2000,
      settleSeconds: 120,
      realHosts,
      ...(hypervisor ? { hypervisor } : {}),
    })
    for (const fault of result.faults.slice(0, mostShown)) console.error(`  ${fault}`)
    const { kills, hostsLost, acknowledged, repeated } = result
    report.note(
      `${kills.control} control planes, ${kills.agent} agents and ${kills.bus} nats-servers killed, ${realHosts} of ${3 + realHosts} hosts with ${hypervisor?.name ?? 'simulated'} VMs, ${hostsLost} hosts unreachable until they were declared lost; ${acknowledged} writes acknowledged, ${repeated} calls repeated`,
    )
    if (result.slowest.length > 0)
      report.note(`inconsistencies that lasted longest after the last kill: ${result.slowest.join('; ').slice(0, 500)}`)
    report.verdict('leaked resources and lost writes', result.faults.length, 0)
    report.verdict(
      'time from the last kill until all resources are in their desired state, s',
      result.convergedSeconds,
      30,
    )
  },
}
