import { createMemoryBus } from '../../bus/memory.ts'
import pino from 'pino'
import { expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { type LogLine, subjects, type VmLogsRequest } from '../../contract/agent.ts'
import { encodeLogPage, logEvent } from '../../contract/log-page.ts'
import type { EventStream, SseEvent } from '../http/operation.ts'
import { encodeEvent } from '../http/sse.ts'
import { streamLogs } from './logs.ts'

const vm = { id: 'vm_1', deploymentId: 'dep_1', hostId: 'host-1' }
const scope = { projectId: 'prj_1', appId: 'app_1' }
const line = (n: number, size = 10): LogLine => ({
  atUs: 1_700_000_000_000_000 + n,
  stream: 'stdout',
  line: `line ${n} "${'x'.repeat(size)}\u0000"`,
})

/** Returns a client that reads nothing until the test calls `reads`. */
function client() {
  const gone = new AbortController()
  const sent: SseEvent[] = []
  const texts = () => sent.map(event => String(Buffer.from(event.text ?? encodeEvent(event))))
  let mayRead = Promise.withResolvers<void>()
  const stream: EventStream = {
    lastEventId: undefined,
    signal: gone.signal,
    send: event => sent.push(event) > 0,
    drained: () => mayRead.promise,
    close: () => gone.abort(),
  }
  return {
    stream,
    text: () => texts().join(''),
    ids: () => texts().flatMap(text => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id) % 1e6)),
    bytes: () => sent.reduce((sum, event) => sum + (event.text?.length ?? 0), 0),
    reads: () => mayRead.resolve(),
    stops: () => {
      mayRead = Promise.withResolvers<void>()
    },
    gone,
  }
}

it('a log stream combines the pages of many bus messages, and sends them only as fast as the client reads', async () => {
  const bus = createMemoryBus()
  const all = Array.from({ length: 5_000 }, (_, n) => line(n, 200))
  const asked: number[] = []
  await bus.serve(subjects.hostIn('host-1', 'vm.logs'), data => {
    const { afterUs, tail } = data as { afterUs: number; tail: number }
    asked.push(afterUs)
    const lines = all.filter(({ atUs }) => atUs > afterUs).slice(-tail)
    return lines.length > 2_000 ? { lines: lines.slice(0, 2_000), more: true } : { lines }
  })
  const slow = client()
  const running = streamLogs({ bus, log: pino({ level: 'silent' }) }, slow.stream, scope, [vm], 4_500)
  await until(() => slow.ids().length > 0, { what: 'the first lines' })
  expect(slow.bytes()).toBeLessThan(300 * 1024)
  // Lines that are published while the history is being sent must be sent once, after the history.
  await bus.publish('log.host-1.prj_1.app_1.dep_1.vm_1', {
    vmId: 'vm_1',
    deploymentId: 'dep_1',
    dropped: 0,
    lines: [line(4_999, 200), line(5_000)],
  })
  slow.reads()
  await until(() => slow.ids().length === 4_501, { what: 'all lines' })
  expect(asked).toEqual([0, all[2_499]?.atUs, all[4_499]?.atUs])
  expect(slow.ids()).toEqual(Array.from({ length: 4_501 }, (_, n) => n + 500))
  expect(slow.text()).toContain(
    encodeEvent({
      event: 'log',
      id: String(line(5_000).atUs),
      data: {
        at: new Date(line(5_000).atUs / 1000).toISOString(),
        source: 'app',
        stream: 'stdout',
        line: line(5_000).line,
        deployment_id: 'dep_1',
        vm_id: 'vm_1',
      },
    }),
  )
  slow.gone.abort()
  await running
})

it('a log stream forwards the encoded pages of a host one after the other, without repeating lines', async () => {
  const bus = createMemoryBus()
  const all = Array.from({ length: 40 }, (_, n) => line(n, 200))
  const asked: VmLogsRequest[] = []
  await bus.serve(subjects.hostIn('host-1', 'vm.logs'), data => {
    const request = data as VmLogsRequest
    asked.push(request)
    const after = all.filter(({ atUs }) => atUs > request.afterUs)
    return encodeLogPage(after, { vmId: 'vm_1', deploymentId: request.events?.deploymentId ?? '' }, 8_000)
  })
  const slow = client()
  const running = streamLogs({ bus, log: pino({ level: 'silent' }) }, slow.stream, scope, [vm], 100)
  await until(() => slow.ids().length > 0, { what: 'the first page' })
  expect(slow.bytes()).toBeLessThan(10_000)
  await bus.publish('log.host-1.prj_1.app_1.dep_1.vm_1', {
    vmId: 'vm_1',
    deploymentId: 'dep_1',
    dropped: 0,
    lines: [line(39), line(40)],
  })
  slow.reads()
  await until(() => slow.ids().length === 41, { what: 'all lines' })
  expect(slow.ids()).toEqual(Array.from({ length: 41 }, (_, n) => n))
  expect(asked.map(({ events }) => events)).toEqual(asked.map(() => ({ deploymentId: 'dep_1' })))
  const one = all[7]
  expect(slow.text()).toContain(one && logEvent(one, { vmId: 'vm_1', deploymentId: 'dep_1' }))
  slow.gone.abort()
  await running
})

it('a log stream reports a gap when more new lines arrive than the buffer for a slow client holds', async () => {
  const bus = createMemoryBus()
  await bus.serve(subjects.hostIn('host-1', 'vm.logs'), () => ({ lines: [line(1)] }))
  const slow = client()
  const running = streamLogs({ bus, log: pino({ level: 'silent' }) }, slow.stream, scope, [vm], 10)
  await until(() => slow.ids().length === 1, { what: 'the history' })
  for (let n = 0; n < 21; n++) {
    const lines = Array.from({ length: 1_000 }, (_, i) => line(2 + n * 1_000 + i))
    await bus.publish('log.host-1.prj_1.app_1.dep_1.vm_1', { vmId: 'vm_1', deploymentId: 'dep_1', dropped: 0, lines })
  }
  await until(() => slow.text().includes('"dropped_lines":1000'), { what: 'the gap' })
  slow.reads()
  await until(() => slow.ids().length === 20_001, { what: 'the buffered lines' })
  slow.gone.abort()
  await running
})

/** Starts a host that claims in each of its first 49 pages that more pages follow. */
async function endless(bus: ReturnType<typeof createMemoryBus>, lastUs: (asked: number) => number) {
  const asked: number[] = []
  await bus.serve(subjects.hostIn('host-1', 'vm.logs'), data => {
    const { afterUs } = data as VmLogsRequest
    asked.push(afterUs)
    const head = JSON.stringify({ lastUs: lastUs(asked.length), more: asked.length < 50 })
    const text = logEvent(line(asked.length), { vmId: 'vm_1', deploymentId: 'dep_1' })
    return Buffer.from(`${head}\n${text}`)
  })
  return asked
}

it('a log stream stops querying a host that returns the same position again', async () => {
  const bus = createMemoryBus()
  const asked = await endless(bus, () => 5)
  const reader = client()
  reader.reads()
  const running = streamLogs({ bus, log: pino({ level: 'silent' }) }, reader.stream, scope, [vm], 100)
  await bus.publish('log.host-1.prj_1.app_1.dep_1.vm_1', {
    vmId: 'vm_1',
    deploymentId: 'dep_1',
    dropped: 0,
    lines: [line(900)],
  })
  await until(() => reader.ids().includes(900), { what: 'the lines after the history' })
  expect(asked).toEqual([0, 5])
  reader.gone.abort()
  await running
})

it('a log stream stops querying a host once the client has disconnected', async () => {
  const bus = createMemoryBus()
  const asked = await endless(bus, n => n)
  const reader = client()
  const running = streamLogs({ bus, log: pino({ level: 'silent' }) }, reader.stream, scope, [vm], 100)
  await until(() => reader.ids().length > 0, { what: 'the first page' })
  reader.gone.abort()
  reader.reads()
  await running
  // The stream requested the second page before the client disconnected.
  expect(asked).toEqual([0, 1])
})
