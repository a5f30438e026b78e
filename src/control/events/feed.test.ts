/** Tests event streams while the bus loses messages. */
import { afterAll, expect, it } from 'vitest'
import { testDatabase } from '../../../test/support/database.ts'
import { testLog } from '../../../test/support/log.ts'
import { until } from '../../../test/support/wait.ts'
import type { Bus } from '../../bus/bus.ts'
import { createMemoryBus } from '../../bus/memory.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { EventStream } from '../http/operation.ts'
import { feed } from './feed.ts'
import { projectEvents } from './project-events.ts'
import { publishEvent, startRelay } from './index.ts'
import { messagesOf } from './relay.ts'

const { db, drop } = await testDatabase()
const bus = createMemoryBus()
/** Numbers of those events that the bus loses. */
const lost = new Set<number>()
const leaky: Bus = {
  subscribe: (subject, handler, options) => bus.subscribe(subject, handler, options),
  request: (subject, data, options) => bus.request(subject, data, options),
  serve: (subject, handler, options) => bus.serve(subject, handler, options),
  connected: () => bus.connected(),
  ping: timeoutMs => bus.ping(timeoutMs),
  close: () => bus.close(),
  publish: async (subject, data, options) =>
    [data].flat().some(event => lost.has(Number(Object(Object(event).data).version)))
      ? 0
      : bus.publish(subject, data, options),
}
const relay = await startRelay({ db, bus: leaky, log: testLog() })
afterAll(async () => {
  await relay.stop()
  await bus.close()
  await drop()
})
const forget = statement('test.forget', `DELETE FROM event WHERE project_id = $1 AND data->>'version' = ANY($2)`)
const placed = statement<{ placed: boolean }>(
  'test.placed',
  `SELECT bool_and(position IS NOT NULL) AS placed FROM event`,
)
const allPlaced = () => until(async () => (await db.one(placed)).placed, { what: 'their positions' })

async function listener(projectId: string) {
  const end = new AbortController()
  const sent: { event: string; id?: string; n: unknown }[] = []
  const stream: EventStream = {
    lastEventId: undefined,
    signal: end.signal,
    send: ({ event, id, data }) => {
      sent.push({ event, ...(id === undefined ? {} : { id }), n: Object(data).version })
      return true
    },
    drained: async () => {},
    close: () => end.abort(),
  }
  const running = feed({ db, events: projectEvents(bus) }, stream, {
    projectId,
    kinds: ['security_rule.deleted'],
    snapshot: async () => ({}),
  })
  await until(() => sent.some(one => one.event === 'snapshot'), { what: 'the snapshot' })
  return {
    sent,
    numbers: () => sent.flatMap(one => (one.event === 'security_rule.deleted' ? [one.n] : [])),
    async [Symbol.asyncDispose]() {
      end.abort()
      await running
    },
  }
}
const publish = (projectId: string, n: number) =>
  db.tx(async tx =>
    publishEvent(tx, {
      projectId,
      kind: 'security_rule.deleted',
      data: { rule_id: newId(), app_name: 'web', version: n },
    }),
  )

it('a stream reads lost events from the table once a later event arrives, in order and without duplicates', async () => {
  const projectId = newId()
  await using heard = await listener(projectId)
  await publish(projectId, 1)
  await until(() => heard.numbers().length === 1, { what: 'the first' })
  for (const n of [2, 3]) lost.add(n)
  // Events of another project are published in between. They must not count as a gap.
  for (const n of [2, 3]) {
    await publish(projectId, n)
    await publish(newId(), 99)
  }
  // This wait ensures that the fourth event is not in the same bus message as the lost events.
  await allPlaced()
  await publish(projectId, 4)
  await until(() => heard.numbers().length >= 4, { what: 'the fourth' })
  await publish(projectId, 5)
  await until(() => heard.numbers().length >= 5, { what: 'the fifth' })
  expect(heard.numbers()).toEqual([1, 2, 3, 4, 5])
  expect(heard.sent.filter(one => one.event === 'gap')).toEqual([])
})

it('a stream reports a gap if the table no longer contains the lost events', async () => {
  const projectId = newId()
  await using heard = await listener(projectId)
  await publish(projectId, 11)
  await until(() => heard.numbers().length === 1, { what: 'the first' })
  for (const n of [12, 13]) {
    lost.add(n)
    await publish(projectId, n)
  }
  await allPlaced()
  // Deletes the first lost event and all earlier ones, as if their retention had ended.
  await db.run(statement('test.forgetOthers', `DELETE FROM event WHERE project_id <> $1`), [projectId])
  await db.run(forget, [projectId, ['11', '12']])
  await publish(projectId, 14)
  await until(() => heard.numbers().includes(14), { what: 'the last' })
  expect(heard.numbers()).toEqual([11, 13, 14])
  expect(heard.sent.map(one => one.event)).toEqual([
    'snapshot',
    'security_rule.deleted',
    'gap',
    'security_rule.deleted',
    'security_rule.deleted',
  ])
})

const row = (projectId: string, position: number, size = 0) => ({
  projectId,
  position,
  previous: position - 1,
  kind: 'thing',
  appId: null,
  deploymentId: null,
  data: { text: 'x'.repeat(size) },
  at: new Date(0),
})

it('the relay batches events into few messages per project, in order and within the size limit of the bus', () => {
  const [one, two] = [newId(), newId()]
  const messages = messagesOf([row(one, 1), row(two, 2), row(one, 3, 200_000), row(one, 4, 200_000), row(one, 5)])
  expect(messages.map(({ projectId, events }) => [projectId, events.map(({ position }) => position)])).toEqual([
    [one, [1, 3]],
    [one, [4, 5]],
    [two, [2]],
  ])
})
