/**
 * Measures the time from a deploy request to the first HTTP response of the app through the gateway, with a real VM,
 * and with the image and kernel cached. This is compared with the time that the VM alone takes from the start of its
 * process to the same page, and with the time that libvirt adds to starting QEMU by hand.
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { writeSampleImage } from '../src/agent/image/sample.ts'
import { testAgent, testSpec } from '../test/support/agent/agent.ts'
import { hasProgram } from '../src/lib/programs.ts'
import { type BenchCloud, startBenchCloud, untilAnswer } from './cloud.ts'
import type { Benchmark } from './benchmark.ts'
import { beside } from './beside.ts'
import { startLibvirt } from './libvirt.ts'
import { machineToPage } from './machine-alone.ts'
import { rawQemu } from './raw-qemu.ts'
import { inTurns } from './turns.ts'

const rounds = 15
/**
 * The page that is requested, both through the cloud and from the VM alone: a static file, because the time in which
 * the sample app makes a page is not part of its start.
 */
const page = '/health'
const needed = ['qemu-system-x86_64', 'skopeo', 'umoci', 'mke2fs']

export const missingForVms = async (): Promise<string | undefined> => {
  const present = await Promise.all(needed.map(hasProgram))
  const missing = needed.filter((_, i) => !present[i])
  return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined
}

/**
 * Deploys once and waits as a client does, for an event of the app's stream. Until 2026-11-22 the benchmark requested
 * the page every 5 ms instead: sixty requests, which competed with the guest for the same cores.
 */
async function deployOnce(cloud: BenchCloud, name: string): Promise<number> {
  const { hostname } = await cloud.client.createApp({ body: { name, git_url: '', health_check_path: page } })
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, AbortSignal.timeout(120_000)])
  const events = cloud.client.streamDeployments({ app_name: name }, { signal })
  await events.next()
  const began = performance.now()
  await cloud.client.deployApp({ app_name: name, body: { image: 'oci:sample:latest' } })
  let status: string | undefined
  for await (const { data } of events) {
    status = /"status":"(running|failed|cancelled)"/.exec(JSON.stringify(data))?.[1]
    if (status) break
  }
  if (status !== 'running') throw new Error(`the deployment of ${name} is ${status ?? 'not there after two minutes'}`)
  await untilAnswer(cloud, hostname ?? '', () => true, page)
  over.abort()
  return performance.now() - began
}

export const deployToAnswer: Benchmark = {
  name: 'deploy-to-answer',
  goal: 'deploy to HTTP answer at most 1.15 times what the VM alone takes from the start of its process to the same page, and at most 30 ms more: a fifth of what libvirt adds',
  covers: ['B6'],
  how: 'Deploys real VMs with all programs: API, placement, agent, QEMU, health check, route, gateway, page. This alternates with the VM alone on an agent without a control plane, whose time is that of process, state, guest and first page at its own address; the test queries its agent every 5 ms and its page every 2 ms. libvirt starts an empty VM of 128 MiB (createXML), alternating with the same QEMU started by hand until its monitor answers: the difference is the overhead of libvirt.',
  reading:
    'The time that Mote adds to the VM alone consists of the request and its transaction (9 ms), placement and notifying the host (13 ms), tap, disk and directories of the VM (18 ms), the health check (a page in the guest, and up to 25 ms until it is requested), the route (17 ms), and the CPU time that these steps take from the cores that emulate the guest. It exceeds the goal of 30 ms although no step waits idly (docs/decisions/0077-fast-wake.md). In runs of the same code with seven rounds each, within ten minutes, Mote added 46 to 106 ms; the benchmark has run fifteen rounds since then. Until 2026-11-22 the benchmark requested the page every 5 ms on the same cores, and Mote added 144 to 178 ms. Before 2026-11-21 the time of the VM alone ended with its first health check.',
  unable: missingForVms,
  async run(report) {
    await using cleanup = new AsyncDisposableStack()
    const cloud = cleanup.use(await startBenchCloud('qemu'))
    await writeSampleImage(join(cloud.dir, 'images', 'sample'))
    const network = process.getuid?.() === 0 ? 'tap' : 'user'
    const host = cleanup.use(await testAgent({ hypervisor: 'qemu', network }))
    const spec = testSpec({ memoryMib: 512, diskMib: 1024 })
    const libvirt = await beside(report, cleanup, 'libvirt', startLibvirt)
    let n = 0
    const found = await inTurns(rounds, {
      async total() {
        const name = `deploy-${n++}`
        const ms = await deployOnce(cloud, name)
        await cloud.client.deleteApp({ app_name: name })
        // Wait until the app is deleted, so that its deletion does not affect the next round.
        while ((await cloud.client.listApps({ query: { limit: 100 } })).length > 0) await pause(20)
        return ms
      },
      // The first start, which is not measured, also builds the base of the image, the guest kernel and the template.
      alone: () => machineToPage(host, `alone-${n++}`, spec, page),
      async raw() {
        await using qemu = await rawQemu()
        return qemu.ms
      },
      libvirt:
        libvirt &&
        (async () => {
          const ms = await libvirt.create('machine')
          await libvirt.destroy('machine')
          return ms
        }),
    })
    const total = report.samples('deploy to answer', 'ms', found.total)
    const alone = report.samples('the VM alone, spawn to page', 'ms', found.alone)
    const adds = total.median - alone.median
    report.verdict('time from deploy to page / time of the VM alone (medians)', total.median / alone.median, 1.15)
    report.verdict('time from deploy to page minus time of the VM alone (medians), ms', adds, 30)
    const raw = report.samples('empty QEMU, spawn to answer', 'ms', found.raw)
    if (!libvirt) return
    const created = report.samples('libvirt, createXML of the same', 'ms', found.libvirt)
    report.verdict(
      'time that Mote adds to the VM alone / time that libvirt adds to QEMU alone',
      adds / (created.median - raw.median),
      0.2,
    )
  },
}
