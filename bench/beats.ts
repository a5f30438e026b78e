/**
 * Measures the CPU time of a control plane that receives a heartbeat per second from each of 1,000 hosts with 10 VMs
 * each.
 */
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
  goal: 'heartbeats of 1,000 hosts per second with the metrics of 10,000 VMs, at 15 % of one core',
  covers: ['B19'],
  how: 'Measures the CPU of the control plane process while it receives a heartbeat of every host each second, minus its CPU without heartbeats. The process also simulates the hosts, so serializing the heartbeats counts against it. For comparison: the time of one batched UPDATE of the same number of rows by node-pg, which is what each second writes.',
  reading: 'The process serializes and parses each heartbeat; in a real installation it only parses them.',
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
      // The first heartbeat of a host registers the host, so it is not measured.
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
    report.note(`CPU of the process without heartbeats: ${(without * 1000).toFixed(0)} ms per second`)
    report.verdict(
      'share of a core that receives the heartbeats of 1,000 hosts',
      (points.at(-1)?.value ?? NaN) / 1000,
      0.15,
    )
  },
}
