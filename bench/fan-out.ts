/** Events to 10, 100 and 1,000 readers of one project, beside bare Node that writes the same bytes to as many. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type Benchmark, median } from './benchmark.ts'
import { insertEvents } from './events.ts'
import { type Plane, startPlane } from './plane.ts'
import { cpuMsOf } from './process.ts'
import { openReaders } from './sse-clients.ts'
import { inTurns, ratioOfRounds } from './turns.ts'

const rounds = 7
const sizes = [10, 100, 1000] as const
const path = '/v1/workspace/events'
const data = { app_name: 'an-app-of-the-bench', status: 'running', job_id: 'job-0123456789abcdef' }

interface Bare extends AsyncDisposable {
  readonly url: string
  emit(count: number): void
  cpuMs(): number
}

async function startBare(): Promise<Bare> {
  const child = fork(join(import.meta.dirname, 'sse-child.ts'))
  const [port] = await once(child, 'message')
  return {
    url: `http://127.0.0.1:${port}`,
    // What the product's events have besides: the app and the deployment they are of.
    emit: count => void child.send({ count, data: { ...data, app_id: null, deployment_id: null } }),
    cpuMs: () => cpuMsOf(child.pid ?? 0),
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

export const fanOut: Benchmark = {
  name: 'fan-out',
  goal: 'events to 10, 100 and 1,000 readers at half the rate of bare Node, 30 KiB of memory for each reader',
  covers: ['B12'],
  how: 'A burst of events is committed by one statement; timed until the last reader has the last of them, in turns with a bare Node server that turns each event into text once and writes it to everybody. The product also orders them durably in PostgreSQL and carries them over its bus. Readers are connections of this process that count.',
  reading:
    'Before one subscription for each project and process, and one text for each event, it was 0.26 to 0.33 of bare Node. What is left is the statement that gives the events their order: it shares two cores with 100 readers.',
  async run(report) {
    await using plane = await startPlane()
    await using bare = await startBare()
    const shares: { at: number; value: number }[] = []
    const cpu: { at: number; value: number }[] = []
    for (const size of sizes) {
      const burst = Math.max(20, 20_000 / size)
      const before = plane.rssMib()
      const mine = await openReaders(
        plane.url,
        Array.from({ length: size }, () => path),
        plane.jwt,
      )
      const memory = (plane.rssMib() - before) / size
      const theirs = await openReaders(
        bare.url,
        Array.from({ length: size }, () => '/'),
      )
      let sent = 0
      const began = { product: 0, bare: 0 }
      const rate = async (readers: typeof mine, emit: () => Promise<void> | void, upTo: number) => {
        const startedMs = performance.now()
        const all = readers.until(upTo)
        await emit()
        await all
        return (burst * size) / ((performance.now() - startedMs) / 1000)
      }
      let bareSent = 0
      const rates = await inTurns(rounds, {
        product: async () => {
          const cpuMs = plane.cpuMs()
          const found = await rate(mine, () => emitOf(plane, burst), (sent += burst))
          began.product += plane.cpuMs() - cpuMs
          return found
        },
        bare: () => rate(theirs, () => bare.emit(burst), (bareSent += burst)),
      })
      mine.close()
      theirs.close()
      report.samples(`product, ${size} readers`, '/s', rates.product)
      report.samples(`bare Node, ${size} readers`, '/s', rates.bare)
      const share = ratioOfRounds(rates.product, rates.bare)
      report.atLeast(`share of bare Node, ${size} readers`, share, 0.5)
      shares.push({ at: size, value: median(rates.product) })
      cpu.push({ at: size, value: (began.product * 1000) / (sent * size) })
      if (size === 1000) report.verdict('memory of a reader, KiB', memory * 1024, 30)
    }
    report.growth({ what: 'deliveries', unit: '/s', along: 'readers', points: shares })
    report.growth({ what: 'CPU of the control plane for a delivery', unit: 'us', along: 'readers', points: cpu })
  },
}
