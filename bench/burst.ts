/**
 * Measures the rate of ten concurrent deploys through the whole cloud, compared with that of an agent alone that
 * starts ten equal VMs.
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { subjects, type VmObserved } from '../src/contract/agent.ts'
import { testAgent, testSpec, type TestAgent } from '../test/support/agent/agent.ts'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import type { Benchmark } from './benchmark.ts'
import { type BenchCloud, startBenchCloud } from './cloud.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 5
const count = 10
const memoryMib = 512 as const

/** Returns the number of deploys per second, measured until the last deployment runs. */
async function throughTheCloud(cloud: BenchCloud, round: number): Promise<number> {
  const names = Array.from({ length: count }, (_, n) => `burst-${round}-${n}`)
  await Promise.all(
    names.map(name => cloud.client.createApp({ body: { name, git_url: '', health_check_path: '/health' } })),
  )
  const events = cloud.client.streamAllDeployments({ signal: AbortSignal.timeout(300_000) })
  await events.next()
  const began = performance.now()
  const body = { image: 'oci:sample:latest', memory_mib: memoryMib }
  await Promise.all(names.map(name => cloud.client.deployApp({ app_name: name, body })))
  const run = new Set<string>()
  for await (const { data } of events) {
    const text = JSON.stringify(data)
    const id = /"deployment_id":"([^"]+)"/.exec(text)?.[1]
    if (id && text.includes('"status":"running"')) run.add(id)
    if (run.size === count) break
  }
  if (run.size < count) throw new Error(`${run.size} of ${count} deploys run after five minutes`)
  const rate = (count * 1000) / (performance.now() - began)
  await Promise.all(names.map(name => cloud.client.deleteApp({ app_name: name })))
  while ((await cloud.client.listApps({ query: { limit: 100 } })).length > 0) await pause(50)
  return rate
}

/** Returns the number of VM starts per second, measured until the last VM is healthy. */
async function byTheAgent(host: TestAgent, round: number): Promise<number> {
  const ids = Array.from({ length: count }, (_, n) => `burst-${round}-${n}`)
  const healthy = new Set<string>()
  const all = Promise.withResolvers<void>()
  const reported = await host.bus.subscribe(subjects.observed(host.agent.hostId), ({ data }) => {
    const { vmId, healthy: isHealthy } = data as VmObserved
    if (isHealthy) healthy.add(vmId)
    if (healthy.size === count) all.resolve()
  })
  const tooLong = () => all.reject(new Error(`${healthy.size} of ${count} VMs are healthy after five minutes`))
  const limit = setTimeout(tooLong, 300_000)
  const began = performance.now()
  const spec = testSpec({ memoryMib, diskMib: 1024 })
  await Promise.all(ids.map(vmId => host.put({ vmId, generation: 1, want: 'running', spec })))
  await all.promise
  clearTimeout(limit)
  const rate = (count * 1000) / (performance.now() - began)
  await reported.stop()
  await Promise.all(ids.map(vmId => host.request('vm.forget', { vmId, generation: 2 })))
  await Promise.all(ids.map(vmId => host.until(vmId, 'gone', vm => vm.state === 'absent')))
  return rate
}

export const burst: Benchmark = {
  name: 'burst',
  goal: 'ten parallel deploys run at 90 % of the rate at which the agent alone starts ten such VMs',
  covers: ['B9'],
  how: `Real VMs of ${memoryMib} MiB. ${count} deploys are requested at once, and their time is measured until the event stream of the project reports the last of them as running: API, plan limits, placement, agent, health check, status. This alternates with an agent with the same settings that receives as many desired states over its bus.`,
  reading:
    'The benchmark starts ten VMs, because two cores cannot emulate a hundred. Both sides start from the same template and share the cores with their guests. Until 2026-11-21 23:00 the health checks of the control plane requested the greeting of the sample app, which starts three programs in an emulated guest, and the health checks of the agent alone requested a file, so the ratio was 0.62 to 0.77. The remaining difference is the CPU of the control plane, the gateway and PostgreSQL, which the guests do not get.',
  unable: missingForVms,
  async run(report) {
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    await using cloud = await startBenchCloud('qemu')
    await writeSampleImage(join(cloud.dir, 'images', 'sample'))
    await using host = await testAgent({ hypervisor: 'qemu', network })
    let round = 0
    const found = await inTurns(rounds, {
      cloud: () => throughTheCloud(cloud, round++),
      agent: () => byTheAgent(host, round++),
    })
    report.samples(`${count} deploys at once`, '/s', found.cloud)
    report.samples(`agent alone, ${count} VMs`, '/s', found.agent)
    report.atLeast(
      'rate of parallel deploys / rate at which the agent alone starts VMs',
      ratioOfRounds(found.cloud, found.agent),
      0.9,
    )
  },
}
