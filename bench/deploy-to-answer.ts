/**
 * From the deploy request to the first HTTP answer through the gateway, in a real VM, image and kernel cached; over what
 * the machine itself needs: the steps the agent times from the start of the VMM process to the first healthy probe.
 */
import { join } from 'node:path'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import { hasProgram } from '../src/lib/programs.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import { type Benchmark, summarise } from './benchmark.ts'

const rounds = 7
const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']
/** What the VM needs whoever starts it; `image`, `base` and `disk` are ours. */
const machineSteps = ['spawn', 'load', 'boot', 'healthy']

export const missingForVms = async (): Promise<string | undefined> => {
  const present = await Promise.all(needed.map(hasProgram))
  const missing = needed.filter((_, i) => !present[i])
  return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined
}

async function deployOnce(cloud: BenchCloud, name: string): Promise<{ readonly ms: number; readonly job: string }> {
  const { hostname } = await cloud.client.createApp({ body: { name, git_url: '' } })
  const began = performance.now()
  const { job_id } = await cloud.client.deployApp({ app_name: name, body: { image: 'oci:sample:latest' } })
  await untilAnswer(cloud, hostname ?? '')
  return { ms: performance.now() - began, job: job_id }
}

export const deployToAnswer: Benchmark = {
  name: 'deploy-to-answer',
  goal: 'deploy to HTTP answer at most 1.15 times what the machine itself takes from spawn to healthy',
  covers: ['B6'],
  how: 'Real VMs through the whole cloud: API, placement, agent, QEMU, health, route, gateway. The machine itself is what the agent times from the start of the QEMU process to the first healthy probe.',
  unable: missingForVms,
  async run(report) {
    await using cloud = await startBenchCloud('qemu')
    await writeSampleImage(join(cloud.dir, 'images', 'sample'))
    const total: number[] = []
    const machine: number[] = []
    for (let round = -1; round < rounds; round++) {
      const name = `round-${round + 1}`
      const { ms, job } = await deployOnce(cloud, name)
      const { steps } = await cloud.client.getDeployment({ app_name: name, job_id: job })
      // The first one also makes the base image and the guest kernel.
      if (round >= 0) {
        total.push(ms)
        machine.push(steps.filter(step => machineSteps.includes(step.name)).reduce((sum, step) => sum + step.ms, 0))
      }
      await cloud.client.deleteApp({ app_name: name })
    }
    report.samples('deploy to answer', 'ms', total)
    report.samples('machine, spawn to healthy', 'ms', machine)
    report.verdict('ratio of the medians', summarise(total).median / summarise(machine).median, 1.15)
  },
}
