/** The beats of 1,000 hosts with 10 VMs each, every second: what they cost the control plane that hears them all. */
import { setTimeout as pause } from 'node:timers/promises'
import { type Benchmark, median } from './benchmark.ts'
import { heartbeatsOf } from './live-list.ts'
import { startPlane } from './plane.ts'
import { seedServing, seedTenants } from './seed.ts'
import { scaled } from './turns.ts'

const windowMs = 3000
const windows = 5
const batch = `UPDATE host SET last_seen_at = now() WHERE id = ANY($1::uuid[])`

export const heartbeats: Benchmark = {
  name: 'beats',
  goal: 'beats of 1,000 hosts a second, numbers of 10,000 VMs in them, for 15 % of one core',
  covers: ['B19'],
  how: 'CPU of the process of the control plane while it hears a beat of every host each second, less what it takes without them. The process also plays the hosts: making the text of the beats, which on a real installation hosts do, is counted against it. Beside it the time of one batched UPDATE of as many rows by node-pg, which is what a tick writes.',
  reading:
    'The text of the beats is made and read in the same process, twice for each: on a real installation it is only read.',
  async run(report) {
    await using plane = await startPlane()
    await seedTenants(plane.sql, 100, 100, 'tenant')
    const vms = await seedServing(plane.sql, 'app-', 1000)
    const all = heartbeatsOf(vms)
    const share = async () => {
      const found: number[] = []
      for (let n = 0; n < scaled(windows); n++) {
        const before = plane.cpuMs()
        await pause(windowMs)
        found.push((plane.cpuMs() - before) / windowMs)
      }
      return median(found)
    }
    const without = await share()
    const points: { at: number; value: number }[] = []
    for (const hosts of [10, 100, 1000]) {
      plane.heartbeat(all.slice(0, hosts))
      // The first beat of a host is written down as news.
      await pause(windowMs)
      points.push({ at: hosts, value: Math.max(0, (await share()) - without) * 1000 })
    }
    const ids = all.map(({ hostId }) => hostId)
    const times: number[] = []
    for (let n = 0; n < 20; n++) {
      const began = performance.now()
      await plane.sql.query({ name: 'bench.touch', text: batch, values: [ids] })
      times.push(performance.now() - began)
    }
    report.samples('one batched UPDATE of 1,000 rows', 'ms', times)
    report.growth({ what: 'CPU in each second', unit: 'ms', along: 'hosts', law: 'linear', points })
    report.note(`without beats ${(without * 1000).toFixed(0)} ms of CPU a second`)
    report.verdict('share of a core with 1,000 hosts', (points.at(-1)?.value ?? NaN) / 1000, 0.15)
  },
}
