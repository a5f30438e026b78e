/** Event streams of two control planes on one database and one bus: clients may connect to either. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { type Control, startControl } from '../../src/control/main.ts'
import { api, type Api, type StreamEvent } from '../support/api.ts'
import { testLog } from '../support/log.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

let system: TestSystem
let other: Control
let here: TestUser
let there: Api
beforeAll(async () => {
  system = await testSystem()
  here = await system.user()
  const config = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8), MOTE_CAPTCHA: 'off' })
  const { db } = system.database
  other = await startControl({ config, db, bus: system.bus, log: testLog(), host: '127.0.0.1', port: 0 })
  there = api(`http://127.0.0.1:${other.port}`, here.token)
})
afterAll(async () => {
  await other.stop()
  await system[Symbol.asyncDispose]()
})

/** Opens an event stream, and records its events. */
async function listen(at: Api, path: string, headers: Record<string, string> = {}) {
  const end = new AbortController()
  const events: StreamEvent[] = []
  const reading = (async () => {
    for await (const event of at.events(path, end.signal, headers)) events.push(event)
  })().catch(() => undefined)
  await until(() => events.some(one => one.event === 'snapshot'), { what: `the snapshot of ${path}` })
  return {
    events,
    statuses: () => events.filter(one => one.event === 'deployment.status').map(one => one.data.status),
    async [Symbol.asyncDispose]() {
      end.abort()
      await reading
    },
  }
}
const patient = { timeoutMs: 15_000 }

it('both control planes stream the same events in the same order with the same ids', async () => {
  await here.post('/v1/apps', { name: 'seen', git_url: '' })
  const path = '/v1/apps/seen/deployments/stream'
  await using mine = await listen(here, path)
  await using theirs = await listen(there, path)
  await here.post('/v1/apps/seen/deploy', { image: 'example/app:1' })
  const done = (stream: { statuses(): string[] }) => stream.statuses().at(-1) === 'running'
  await until(() => done(mine) && done(theirs), { ...patient, what: 'both streams to report running' })
  const statusEvents = ({ events }: { events: StreamEvent[] }) =>
    events.filter(one => one.event === 'deployment.status').map(one => `${one.id} ${one.data.status}`)
  expect(statusEvents(theirs)).toEqual(statusEvents(mine))

  // A client that loses its connection can resume at the other control plane.
  const [first] = mine.events.filter(one => one.event === 'deployment.status')
  await using again = await listen(there, path, { 'last-event-id': first?.id ?? '' })
  await until(() => done(again), { ...patient, what: 'the remaining events to be replayed' })
  expect(statusEvents(again)).toEqual(statusEvents(mine).slice(1))
})

it('events of a workspace and of all deployments reach clients of the other control plane', async () => {
  await here.post('/v1/apps', { name: 'wide', git_url: '' })
  await using workspace = await listen(there, '/v1/workspace/events')
  await using all = await listen(there, '/v1/deployments/events')
  await here.post('/v1/apps/wide/deploy', { image: 'example/app:1' })
  const running = ({ events }: { events: StreamEvent[] }) =>
    events.some(one => one.event === 'deployment.status' && one.data.status === 'running')
  await until(() => running(workspace) && running(all), { ...patient, what: 'both streams to report the app' })
  expect(workspace.events.map(one => one.event)).toContain('notification')
  expect(all.events.map(one => one.event)).not.toContain('notification')
})

it('log lines and metrics of a VM reach clients of both control planes', async () => {
  await here.post('/v1/apps', { name: 'chatty', git_url: '' })
  const { job_id } = (await here.post('/v1/apps/chatty/deploy', { image: 'example/app:1' })).body
  await using lines = await listen(there, '/v1/apps/chatty/logs/stream')
  await using ofJob = await listen(here, `/v1/apps/chatty/deployments/${job_id}/logs`)
  await using numbers = await listen(there, '/v1/apps/chatty/metrics/stream')
  const said = ({ events }: { events: StreamEvent[] }) =>
    events.filter(one => one.event === 'log').map(one => `${one.id} ${one.data.line}`)
  await until(() => said(lines).length > 0 && said(ofJob).length > 0, { ...patient, what: 'the first line' })
  expect(said(lines)[0]).toBe(said(ofJob)[0])
  const measured = () => numbers.events.some(one => one.event === 'metrics' && one.data.ram_used_bytes > 0)
  await until(measured, { ...patient, what: 'metrics of the VM' })
})

it('expired events are reported as a gap', async () => {
  await here.post('/v1/apps', { name: 'old', git_url: '' })
  await here.post('/v1/apps/old/deploy', { image: 'example/app:1' })
  await using live = await listen(here, '/v1/apps/old/deployments/stream')
  await until(() => live.statuses().at(-1) === 'running' || live.events.length > 0, {
    ...patient,
    what: 'the app to be streamed',
  })
  const { db } = system.database
  await until(
    async () =>
      (await db.rows({ name: 'test.unplaced', text: 'SELECT seq FROM event WHERE position IS NULL' })).length === 0,
    { ...patient, what: 'every event to get its position' },
  )
  await db.run({ name: 'test.forget', text: 'DELETE FROM event WHERE position < (SELECT max(position) FROM event)' })
  await using late = await listen(there, '/v1/apps/old/deployments/stream', { 'last-event-id': '1' })
  expect(late.events[0]).toMatchObject({ event: 'gap', data: { after: 1 } })
})
