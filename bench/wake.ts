/**
 * Measures the time from a request to a suspended app until its response, compared with restoring the same VM alone.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { join } from 'node:path'
import type { AgentConfig } from '../src/agent/base/config.ts'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import { testAgent, testSpec } from '../test/support/agent/agent.ts'
import type { Benchmark, Report } from './benchmark.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { gvisorMissing, sandboxCase } from './gvisor.ts'
import { machineToPage } from './machine-alone.ts'

const rounds = 12
const name = 'sleeper'
/** Milliseconds to wait before each measurement, so that the previous one does not affect it. */
const goneMs = 1500
/**
 * The page that is requested: a static file, because the time in which the sample app makes a page is not part of a
 * wake-up.
 */
const page = '/health'

async function asleep(cloud: BenchCloud, job: string): Promise<void> {
  for (const deadline = performance.now() + 120_000; performance.now() < deadline; await pause(200))
    if ((await cloud.client.getDeployment({ app_name: name, job_id: job })).status === 'sleeping') return
  throw new Error('the app did not fall asleep within two minutes')
}

async function compare(report: Report, hypervisor: 'qemu' | 'gvisor', config: Partial<AgentConfig>): Promise<void> {
  await using cloud = await startBenchCloud(hypervisor, { MOTE_IDLE_SECONDS: '10' })
  await writeSampleImage(join(cloud.dir, 'images', 'sample'))
  await using host = await testAgent(config)
  const spec = testSpec({ hypervisor, memoryMib: 512, diskMib: 1024 })
  await host.put({ vmId: 'origin', generation: 1, want: 'running', spec })
  await host.until('origin', 'healthy', vm => vm.healthy)
  await host.snapshot('snap', 'origin')
  await host.request('vm.forget', { vmId: 'origin', generation: 2 })
  const { hostname } = await cloud.client.createApp({
    body: { name, git_url: '', min_replicas: 0, drain_timeout: 0 },
  })
  const { job_id } = await cloud.client.deployApp({ app_name: name, body: { image: 'oci:sample:latest' } })
  await untilAnswer(cloud, hostname ?? '')
  const total: number[] = []
  const alone: number[] = []
  const wakes = async () => {
    await asleep(cloud, job_id)
    await pause(goneMs)
    total.push(await untilAnswer(cloud, hostname ?? '', () => true, page))
    const { steps } = await cloud.client.getDeployment({ app_name: name, job_id })
    report.note(`steps of a wake-up on the agent: ${steps.map(step => `${step.name} ${step.ms} ms`).join(', ')}`)
  }
  const restores = async (round: number) => {
    await pause(goneMs)
    const from = { snapshotId: 'snap', renew: true, alone: true }
    alone.push(await machineToPage(host, `alone-${round}`, { ...spec, from }, page))
  }
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 1) await restores(round)
    await wakes()
    if (round % 2 === 0) await restores(round)
  }
  const all = report.samples('request to answer', 'ms', total)
  const own = report.samples('the VM alone, restore to response', 'ms', alone)
  report.verdict('time from the request to the answer of a sleeping app (median), s', all.median / 1000, 0.35)
  report.verdict('time to the answer minus time of the VM alone (medians), ms', all.median - own.median, 50)
}

export const wake: Benchmark = {
  name: 'wake',
  goal: 'an app that is scaled to zero answers within 0.35 s, and at most 50 ms later than a restore of the VM alone',
  covers: ['B10'],
  how: 'Requests an app that is scaled to zero through the gateway until it answers: route, wake-up, placement, agent, QEMU from the snapshot, health check, route, page. This alternates with the VM alone: the same kind of snapshot on an agent without a control plane, measured as process, state, identity and first page at its own address. The notes list the steps of the agent in each wake-up.',
  reading:
    'Without KVM QEMU emulates the guest, and translates all of its code again after a restore, so the time of the VM alone is the lower limit. The requested page is a static file. The time beyond the VM alone consists of the transaction of the wake-up (9 ms), tap, disk and directories of the VM (17 ms), the health check and the time until its result is in the route (7 ms), and the CPU time that these steps take from the cores that emulate the guest; decision 77 has a trace. Earlier versions took 78 to 104 ms more than the VM alone (eleven transactions), and 59 ms (one transaction); when Mote and the VM alone both start on an idle host, Mote takes 25 to 36 ms more.',
  unable: missingForVms,
  run: report => compare(report, 'qemu', { hypervisor: 'qemu', network: process.getuid?.() === 0 ? 'tap' : 'user' }),
}

export const gvisorWake: Benchmark = {
  name: 'gvisor-wake',
  goal: wake.goal,
  how: 'Like the benchmark `wake`, with gVisor instead of emulated QEMU. The time of the VM alone consists of `runsc restore`, the time until the guest responds on its channel, and the first page at its own address. The notes list the steps of the agent in each wake-up.',
  reading:
    'The time beyond the VM alone consists of the route and the transaction of the wake-up, the network, volumes and files of the VM (12 ms), the health check, and the time until its result is in the route. On the same day, before the launcher started the programs that a VM start needs, Mote added 66 ms: each of seven forks blocked the event loop of the large process (docs/decisions/0055-launcher-process.md).',
  unable: gvisorMissing,
  run: async report => compare(report, 'gvisor', (await sandboxCase())?.config ?? {}),
}
