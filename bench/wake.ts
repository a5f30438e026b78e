/** A request to an app that sleeps: until its answer, and how much of that is not the VM's own start. */
import { setTimeout as pause } from 'node:timers/promises'
import { join } from 'node:path'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import type { Benchmark } from './benchmark.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import { missingForVms } from './deploy-to-answer.ts'

const rounds = 3
const name = 'sleeper'

async function asleep(cloud: BenchCloud, job: string): Promise<void> {
  for (const deadline = performance.now() + 120_000; performance.now() < deadline; await pause(200))
    if ((await cloud.client.getDeployment({ app_name: name, job_id: job })).status === 'sleeping') return
  throw new Error('the app did not fall asleep within two minutes')
}

export const wake: Benchmark = {
  name: 'wake',
  goal: 'an app that sleeps answers within 0.35 s, of which the gateway and the control plane take at most 50 ms',
  covers: ['B10'],
  unable: missingForVms,
  async run(report) {
    await using cloud = await startBenchCloud('qemu', { MOTE_IDLE_SECONDS: '10' })
    await writeSampleImage(join(cloud.dir, 'images', 'sample'))
    const { hostname } = await cloud.client.createApp({
      body: { name, git_url: '', min_replicas: 0, drain_timeout: 0 },
    })
    const { job_id } = await cloud.client.deployApp({ app_name: name, body: { image: 'oci:sample:latest' } })
    await untilAnswer(cloud, hostname ?? '')
    const total: number[] = []
    const machine: number[] = []
    for (let round = 0; round < rounds; round++) {
      await asleep(cloud, job_id)
      total.push(await untilAnswer(cloud, hostname ?? ''))
      const { steps } = await cloud.client.getDeployment({ app_name: name, job_id })
      report.note(steps.map(step => `${step.name} ${step.ms} ms`).join(', '))
      machine.push(steps.reduce((sum, step) => sum + step.ms, 0))
    }
    const all = report.samples('request to answer', 'ms', total)
    const own = report.samples('the VM, disk to healthy', 'ms', machine)
    report.verdict('answer (median), s', all.median / 1000, 0.35)
    report.verdict('more than the VM itself (medians), ms', all.median - own.median, 50)
  },
}
