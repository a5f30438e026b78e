/** Starts twenty forks of one VM at once, and measures the time until each has served a page, and their memory. */
import { readFile } from 'node:fs/promises'
import type { VmObserved } from '../src/contract/agent.ts'
import { type TestAgent, testAgent, testSpec, vmmsIn } from '../test/support/agent/agent.ts'
import { cpuSeconds } from '../src/lib/process-identity.ts'
import type { Benchmark } from './benchmark.ts'
import { missingForVms } from './deploy-to-answer.ts'

const clones = 20
const rounds = 2

const healthy = (host: TestAgent, vmId: string) => host.until(vmId, 'healthy', vm => vm.healthy)

/** Requests a static file, because the time in which the sample app makes a page is not part of the start of a fork. */
async function page({ endpoint }: VmObserved): Promise<void> {
  const response = await fetch(`http://${endpoint?.host}:${endpoint?.port}/health`)
  if ((await response.text()) !== 'ok\n') throw new Error('the clone served something else')
}

/** Returns the proportional set size of the process in MiB, in which a page shared by n processes counts as 1/n. */
async function pssMib(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8')
  return Number(/^Pss:\s+(\d+) kB$/m.exec(text)?.[1]) / 1024
}

export const forks: Benchmark = {
  name: 'forks',
  goal: '20 forks of one VM serve within 5 s and take at most 40 MiB (PSS) each',
  reading: `Without KVM, each fork translates the code that it runs for the first time: half a second or more of CPU until its page, for ${clones} forks on the cores of this computer. This limits the result. Until 2026-11-21 the requested page was the greeting of the sample app, which starts three programs.`,
  unable: missingForVms,
  async run(report) {
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    await using host = await testAgent({ hypervisor: 'qemu', network, maxBoots: clones })
    const desired = { generation: 1, want: 'running' } as const
    await host.put({ ...desired, vmId: 'origin', spec: testSpec() })
    await page(await healthy(host, 'origin'))
    await host.snapshot('snap', 'origin')
    const times: number[] = []
    const sizes: number[] = []
    const work: number[] = []
    for (let round = 0; round < rounds; round++) {
      const ids = Array.from({ length: clones }, (_, n) => `clone-${round}-${n}`)
      const before = new Set(await vmmsIn(host.config.dataDir))
      const began = performance.now()
      await Promise.all(
        ids.map(async vmId => {
          const spec = testSpec({ hostname: vmId, from: { snapshotId: 'snap', renew: true } })
          await host.put({ ...desired, vmId, spec })
          await page(await healthy(host, vmId))
        }),
      )
      times.push(performance.now() - began)
      const pids = (await vmmsIn(host.config.dataDir)).filter(pid => !before.has(pid))
      sizes.push(...(await Promise.all(pids.map(pssMib))))
      // Also measure CPU time, because it is more informative than elapsed time on a busy computer.
      work.push(...pids.map(pid => (cpuSeconds(pid) ?? 0) * 1000))
      await Promise.all(ids.map(vmId => host.request('vm.forget', { vmId, generation: 2 })))
      await Promise.all(ids.map(vmId => host.until(vmId, 'gone', vm => vm.state === 'absent')))
    }
    report.verdict(
      'time until all forks serve (best round), s',
      report.samples(`${clones} forks serve`, 'ms', times).min / 1000,
      5,
    )
    report.samples('processor time of a fork until then', 'ms', work)
    const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length
    report.verdict('memory of a fork (mean PSS), MiB', mean, 40)
  },
}
