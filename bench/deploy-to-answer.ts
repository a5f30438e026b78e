/**
 * From the deploy request to the first HTTP answer through the gateway, in a real VM, image and kernel cached; beside the VM
 * alone, from the start of its process to the same page.
 */
import { join } from 'node:path'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import { testAgent, testSpec } from '../src/agent/testing.ts'
import { hasProgram } from '../src/lib/programs.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import { type Benchmark, summarise } from './benchmark.ts'
import { machineToPage } from './machine-alone.ts'

const rounds = 7
const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']

export const missingForVms = async (): Promise<string | undefined> => {
  const present = await Promise.all(needed.map(hasProgram))
  const missing = needed.filter((_, i) => !present[i])
  return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined
}

async function deployOnce(cloud: BenchCloud, name: string): Promise<number> {
  const { hostname } = await cloud.client.createApp({ body: { name, git_url: '' } })
  const began = performance.now()
  await cloud.client.deployApp({ app_name: name, body: { image: 'oci:sample:latest' } })
  await untilAnswer(cloud, hostname ?? '')
  return performance.now() - began
}

export const deployToAnswer: Benchmark = {
  name: 'deploy-to-answer',
  goal: 'deploy to HTTP answer at most 1.15 times what the VM alone takes from the start of its process to the same page',
  covers: ['B6'],
  how: 'Real VMs through the whole cloud: API, placement, agent, QEMU, health, route, gateway, page. In turns with the VM alone on an agent without a cloud, of which only the process, its state, its guest and its first page count, asked at its own address.',
  reading:
    'Before 2026-11-21 the VM alone was counted up to its first healthy probe only, and the page of the sample, which starts three programs in an emulated guest, as ours: 1.88.',
  unable: missingForVms,
  async run(report) {
    await using cloud = await startBenchCloud('qemu')
    await writeSampleImage(join(cloud.dir, 'images', 'sample'))
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    await using host = await testAgent({ hypervisor: 'qemu', network })
    const spec = testSpec({ memoryMib: 512, diskMib: 1024 })
    const total: number[] = []
    const alone: number[] = []
    for (let round = -1; round < rounds; round++) {
      const name = `round-${round + 1}`
      const ms = await deployOnce(cloud, name)
      await cloud.client.deleteApp({ app_name: name })
      const machine = await machineToPage(host, name, spec)
      // The first one also makes the base image, the guest kernel and the template.
      if (round < 0) continue
      total.push(ms)
      alone.push(machine)
    }
    report.samples('deploy to answer', 'ms', total)
    report.samples('the VM alone, spawn to page', 'ms', alone)
    report.verdict('ratio of the medians', summarise(total).median / summarise(alone).median, 1.15)
  },
}
