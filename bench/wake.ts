/** A request to an app that sleeps: until its answer, beside the restore of such a VM alone. */
import { setTimeout as pause } from 'node:timers/promises'
import { join } from 'node:path'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import { testAgent, testSpec } from '../src/agent/testing.ts'
import type { Benchmark } from './benchmark.ts'
import { startBenchCloud, untilAnswer } from './cloud.ts'
import { missingForVms } from './deploy-to-answer.ts'
import { machineToPage } from './machine-alone.ts'
import { inTurns } from './turns.ts'

const rounds = 4
const name = 'sleeper'
/** What a start or a snapshot leaves to be done is not on the next one's account. */
const restMs = 2_000
/** A file that the sample serves: what an app does for its page is no part of a wake. */
const page = '/health'

interface Sleeper extends AsyncDisposable {
  /** Resolves when it is asleep. */
  asleep(): Promise<void>
  /** Milliseconds from a request to its answer. */
  wake(): Promise<number>
  /** What the VM's start was made of. */
  steps(): Promise<string>
}

/** An app that sleeps, in a cloud of its own. */
async function startSleeper(env: Readonly<Record<string, string>>): Promise<Sleeper> {
  await using cleanup = new AsyncDisposableStack()
  const cloud = cleanup.use(await startBenchCloud('qemu', { MOTE_IDLE_SECONDS: '10', ...env }))
  const { client } = cloud
  await writeSampleImage(join(cloud.dir, 'images', 'sample'))
  const { hostname } = await client.createApp({ body: { name, git_url: '', min_replicas: 0, drain_timeout: 0 } })
  const { job_id } = await client.deployApp({ app_name: name, body: { image: 'oci:sample:latest' } })
  await untilAnswer(cloud, hostname ?? '')
  const all = cleanup.move()
  return {
    async asleep() {
      for (const deadline = performance.now() + 120_000; performance.now() < deadline; await pause(200))
        if ((await client.getDeployment({ app_name: name, job_id })).status === 'sleeping') return
      throw new Error('the app did not fall asleep within two minutes')
    },
    wake: () => untilAnswer(cloud, hostname ?? '', () => true, page),
    async steps() {
      const { steps } = await client.getDeployment({ app_name: name, job_id })
      return steps.map(step => `${step.name} ${step.ms} ms`).join(', ')
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

export const wake: Benchmark = {
  name: 'wake',
  goal: 'an app that sleeps answers within 0.35 s, and at most 50 ms later than the same restore of the VM alone',
  covers: ['B10'],
  how: 'A sleeping app is asked through the gateway until it answers: route, wake, placement, agent, QEMU from the snapshot, health, route, page. In turns with the VM alone: the same kind of snapshot on an agent without a cloud, of which only the process, its state, its identity and its first page count, asked at its own address. The cloud has its default, no QEMU that waits for a VM; a second one has two that do (MOTE_VMM_POOL, decision 74), and its wakes are shown beside. The VM alone is always started.',
  reading:
    'Where the VM alone takes longer than 0.35 s, no cloud can answer sooner. Without KVM the guest is emulated: what it runs for the first time after a restore is translated first. The page is a file, as in every raw measurement of such restores; until 2026-11-21 it was the greeting of the sample, which starts three programs in the guest and took 60 to 110 ms more on both sides. What is left above the VM alone is the transactions of the control plane (38 ms of a wake of 283, on the cores that the guest needs), and tap, disk and directories of the VM, which are made side by side since 23:00 of that day (decision 67); the VM alone is counted from its process on. Before 2026-11-21 only the steps of the VM up to its first healthy probe were taken off, not its page: 397 ms, and some 240 now by that measure.',
  unable: missingForVms,
  async run(report) {
    await using sleeper = await startSleeper({})
    await using pooled = await startSleeper({ MOTE_VMM_POOL: '2' })
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    await using host = await testAgent({ hypervisor: 'qemu', network, vmmPool: 0 })
    const spec = testSpec({ memoryMib: 512, diskMib: 1024 })
    await host.put({ vmId: 'origin', generation: 1, want: 'running', spec })
    await host.until('origin', 'healthy', vm => vm.healthy)
    await host.snapshot('snap', 'origin')
    await host.request('vm.forget', { vmId: 'origin', generation: 2 })
    const vm = { ...spec, from: { snapshotId: 'snap', renew: true, alone: true } }
    const rest = async () => {
      await Promise.all([sleeper.asleep(), pooled.asleep()])
      await pause(restMs)
    }
    const wakeOf = (one: Sleeper, which: string) => async () => {
      await rest()
      const ms = await one.wake()
      report.note(`${which}${await one.steps()}`)
      return ms
    }
    let n = 0
    const found = await inTurns(rounds, {
      total: wakeOf(sleeper, ''),
      async alone() {
        await rest()
        return machineToPage(host, `alone-${n++}`, vm, page)
      },
      pooled: wakeOf(pooled, 'with a pool of 2: '),
    })
    const all = report.samples('request to answer', 'ms', found.total)
    const own = report.samples('the VM alone, restore to page', 'ms', found.alone)
    const waited = report.samples('request to answer, with a pool of 2', 'ms', found.pooled)
    report.note(`with a pool of 2: ${Math.round(waited.median - own.median)} ms more than the VM alone`)
    report.verdict('answer (median), s', all.median / 1000, 0.35)
    report.verdict('more than the VM alone (medians), ms', all.median - own.median, 50)
  },
}
