/**
 * Measures the rate at which events reach 10, 100 and 1,000 readers in one project, compared with bare Node that
 * writes the same bytes to as many readers, and with NATS.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Benchmark, median } from './benchmark.ts'
import { beside } from './beside.ts'
import { insertEvents } from './events.ts'
import { startNats } from './nats.ts'
import { type Plane, startPlane } from './plane.ts'
import { cpuMsOf, rssMib } from './process.ts'
import { openReaders, type Readers } from './sse-clients.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const sizes = [10, 100, 1000] as const
const path = '/v1/workspace/events'
/** Size of a NATS message: the same as that of an event. */
const payloadBytes = 200
const settleMs = 1000
const moreReaders = 2000
const data = { app_name: 'an-app-of-the-bench', status: 'running', job_id: 'job-0123456789abcdef' }

interface Bare extends AsyncDisposable {
  readonly url: string
  emit(count: number): void
  cpuMs(): number
  rssMib(): number
}

async function startBare(): Promise<Bare> {
  const child = fork(join(import.meta.dirname, 'sse-child.ts'))
  const [port] = await once(child, 'message')
  return {
    url: `http://127.0.0.1:${port}`,
    // Add two fields that the product's events also have.
    emit: count => void child.send({ count, data: { ...data, app_id: null, deployment_id: null } }),
    cpuMs: () => cpuMsOf(child.pid ?? 0),
    rssMib: () => rssMib(child.pid ?? 0),
    async [Symbol.asyncDispose]() {
      child.kill()
      await once(child, 'exit')
    },
  }
}

async function emitOf(plane: Plane, count: number): Promise<void> {
  await plane.sql.query({ name: 'bench.event', text: insertEvents, values: [plane.projectId, count] })
  await plane.sql.query(`SELECT pg_notify('event', '')`)
}

/**
 * Returns the memory in MiB for each reader beyond the first thousand, because the first thousand reuse the memory of
 * earlier readers.
 */
async function memoryOfReader(of: Pick<Plane, 'rssMib'>, open: (count: number) => Promise<Readers>): Promise<number> {
  const first = await open(1000)
  await pause(settleMs)
  const before = of.rssMib()
  const more = await open(moreReaders)
  await pause(settleMs)
  const each = (of.rssMib() - before) / moreReaders
  first.close()
  more.close()
  return each
}

export const fanOut: Benchmark = {
  name: 'fan-out',
  goal: 'events to 10, 100 and 1,000 subscribers at half the rate of bare Node, 30 KiB of memory per subscriber',
  covers: ['B12'],
  how: 'One statement commits a burst of events. The time ends when the last subscriber has received the last event. This alternates with a bare Node server that serializes each event once and writes it to all subscribers. Mote also orders the events durably in PostgreSQL and sends them over its bus. The subscribers are connections of the benchmark process. For comparison, nats-server sends messages of 200 bytes to as many subscribers over plain TCP, without storage or authentication. The memory per subscriber is the growth of the resident memory while 2,000 subscribers connect in addition to 1,000 others, divided by 2,000.',
  reading:
    'An earlier version, with one bus subscription per stream instead of one per project and process, and without sharing the serialized events, reached 0.26 to 0.33 of the rate of bare Node. The remaining cost is the statement that orders the events: it shares two cores with 100 subscribers. Until 2026-11-21, 23:40, the memory was measured with the first thousand subscribers, which reuse free memory, so it ranged from 4 to 34 KiB.',
  async run(report) {
    await using plane = await startPlane()
    await using bare = await startBare()
    await using cleanup = new AsyncDisposableStack()
    const nats = await beside(report, cleanup, 'NATS', startNats)
    const payload = 'x'.repeat(payloadBytes)
    const shares: { at: number; value: number }[] = []
    const cpu: { at: number; value: number }[] = []
    const openMine = (count: number) => openReaders(plane.url, Array<string>(count).fill(path), plane.jwt)
    const openTheirs = (count: number) => openReaders(bare.url, Array<string>(count).fill('/'))
    for (const size of sizes) {
      const burst = Math.max(20, 20_000 / size)
      const mine = await openMine(size)
      const theirs = await openTheirs(size)
      const subscribers = await nats?.subscribe(size)
      const sent = { product: 0, bare: 0, nats: 0 }
      let cpuMs = 0
      const rate = async (readers: Readers, emit: () => Promise<void> | void, upTo: number) => {
        const startedMs = performance.now()
        const all = readers.until(upTo)
        await emit()
        await all
        return (burst * size) / ((performance.now() - startedMs) / 1000)
      }
      const rates = await inTurns(rounds, {
        product: async () => {
          const before = plane.cpuMs()
          const found = await rate(mine, () => emitOf(plane, burst), (sent.product += burst))
          cpuMs += plane.cpuMs() - before
          return found
        },
        bare: () => rate(theirs, () => bare.emit(burst), (sent.bare += burst)),
        nats:
          nats && subscribers && (() => rate(subscribers, () => nats.publish(burst, payload), (sent.nats += burst))),
      })
      mine.close()
      theirs.close()
      subscribers?.close()
      report.samples(`product, ${size} readers`, '/s', rates.product)
      report.samples(`bare Node, ${size} readers`, '/s', rates.bare)
      if (rates.nats.length > 0) report.samples(`NATS, ${size} subscribers`, '/s', rates.nats)
      const share = ratioOfRounds(rates.product, rates.bare)
      report.atLeast(`rate of deliveries to ${size} subscribers / rate of bare Node`, share, 0.5)
      shares.push({ at: size, value: median(rates.product) })
      cpu.push({ at: size, value: (cpuMs * 1000) / (sent.product * size) })
    }
    report.verdict(
      'memory of the control plane per subscriber, KiB',
      (await memoryOfReader(plane, openMine)) * 1024,
      30,
    )
    const least = (await memoryOfReader(bare, openTheirs)) * 1024
    report.note(`memory of bare Node per subscriber: ${least.toFixed(1)} KiB`)
    report.growth({ what: 'deliveries', unit: '/s', along: 'readers', points: shares })
    report.growth({
      what: 'CPU of the control plane for a delivery',
      unit: 'us',
      along: 'readers',
      law: 'flat',
      points: cpu,
    })
  },
}
