/** Checks that the memory of a whole cloud under mixed load does not grow (`-- soak --minutes N`). */
import { setTimeout as pause } from 'node:timers/promises'
import type { Benchmark } from './benchmark.ts'
import { type BenchCloud, startBenchCloud } from './cloud.ts'
import { rssMib } from './process.ts'

/**
 * Returns the duration of the benchmark in minutes. A function, because `--minutes` is parsed after this module is
 * imported.
 */
const chosenMinutes = () => Number(process.env['MOTE_SOAK_MINUTES'] ?? 10)
const sampleMs = 5000
/**
 * Share of the run that is not measured, because code is still being compiled, and caches and pools are being filled.
 */
const warmShare = 0.3
const workers = 4
/** Milliseconds between two requests of a worker. */
const thinkMs = 20

interface Sample {
  readonly minute: number
  readonly mib: number
}

/** Returns the growth of memory in MiB per ten minutes: the slope of a linear fit (least squares). */
function growthIn10Minutes(samples: readonly Sample[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const x = mean(samples.map(({ minute }) => minute))
  const y = mean(samples.map(({ mib }) => mib))
  const over = mean(samples.map(({ minute, mib }) => (minute - x) * (mib - y)))
  return (over / mean(samples.map(({ minute }) => (minute - x) ** 2))) * 10
}

/**
 * Simulates one user: creates an app, deploys it several times, lists apps and deployments, and deletes the app, again
 * and again.
 */
async function work({ client }: BenchCloud, name: string, done: () => boolean): Promise<number> {
  let asked = 0
  const ask = async (request: () => Promise<unknown>) => {
    asked++
    await request()
    await pause(thinkMs)
  }
  while (!done()) {
    await ask(() => client.createApp({ body: { name, git_url: '' } }))
    for (let n = 0; n < 3; n++) {
      await ask(() => client.deployApp({ app_name: name, body: { image: `example/app:${n}` } }))
      for (let looks = 0; looks < 10; looks++) await ask(() => client.listApps())
      await ask(() => client.listDeployments({ app_name: name }))
    }
    await ask(() => client.deleteApp({ app_name: name }))
    // Wait until the deletion is complete.
    for (const deadline = performance.now() + 30_000; performance.now() < deadline; )
      if (!(await client.listApps()).some(app => app.name === name)) break
      else await pause(50)
    name = name.replace(/-\d+$/, `-${asked}`)
  }
  return asked
}

/**
 * Limit in MiB of the stored log lines, which are kept for a day. With the default of 64 MiB, a run of half an hour
 * would only measure how they accumulate.
 */
const busMib = '4'

export const soak: Benchmark = {
  name: 'soak',
  goal: 'under mixed load the memory of all programs grows by at most 2 MiB in ten minutes after the warm-up',
  covers: ['soak'],
  onlyByName: true,
  how: 'mote up runs (control plane, gateway and agent with simulated VMs in one process, PostgreSQL as another process, 4 MiB for stored log lines) while four clients create, deploy, list and delete without pauses. Resident memory is read every five seconds; the result is the slope of a linear fit through the samples after the first 30 %.',
  reading:
    'Resident memory follows the garbage collector: it climbs, levels off, and falls after a full collection (281 MiB after eight minutes, 283 after twelve). Between two full collections it grows slowly: from 349 to 360 MiB in the last sixteen minutes and some 50,000 requests, without a full collection.',
  async run(report) {
    const minutes = chosenMinutes()
    await using cloud = await startBenchCloud('fake', { MOTE_BUS_MIB: busMib })
    const began = performance.now()
    const end = began + minutes * 60_000
    const samples: Sample[] = []
    const sampling = (async () => {
      for (; performance.now() < end; await pause(sampleMs))
        samples.push({ minute: (performance.now() - began) / 60_000, mib: rssMib(cloud.pid) })
    })()
    const asked = await Promise.all(
      Array.from({ length: workers }, (_, n) => work(cloud, `worker-${n}-0`, () => performance.now() > end)),
    )
    await sampling
    const requests = asked.reduce((sum, count) => sum + count, 0)
    report.note(`the clients sent ${requests} requests in ${minutes} minutes`)
    report.growth({
      what: 'resident memory of mote up',
      unit: 'MiB',
      along: 'minutes',
      points: samples.map(({ minute, mib }) => ({ at: minute, value: mib })),
    })
    const warm = samples.filter(({ minute }) => minute >= minutes * warmShare)
    report.verdict('growth of the resident memory after the warm-up, MiB in 10 minutes', growthIn10Minutes(warm), 2)
  },
}
