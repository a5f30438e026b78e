/**
 * Tests requests to a new app before its route has arrived: clients may learn earlier from the API that the app runs.
 */
import pino from 'pino'
import { describe, expect, it } from 'vitest'
import { createMemoryBus } from '../bus/memory.ts'
import { gatewaySubjects } from '../contract/gateway.ts'
import { until } from '../../test/support/wait.ts'
import { startRouteTable } from './route-table.ts'
import { gatewayFixture } from '../../test/support/gateway/gateway.ts'

const tries = 50

it('the gateway serves the first request to an app whose route is committed but not yet published', async () => {
  await using fixture = await gatewayFixture()
  await fixture.add()
  const app = await fixture.backend((_, res) => void res.end('here'))
  for (let n = 0; n < tries; n++) {
    const name = `app-${n}.localhost`
    const route = { hostname: name, appId: name }
    if (n % 2 === 0) await fixture.publish({ ...route, state: 'down' })
    fixture.commit({ ...route, backends: [app] })
    const asked = fixture.gateways.map(({ port }) => fixture.get('/', { port, headers: { host: name } }))
    for (const { status, body } of await Promise.all(asked)) expect([name, status, body]).toEqual([name, 200, 'here'])
  }
})

it('the gateway forwards an upgrade to an app whose route is committed but not yet published', async () => {
  await using fixture = await gatewayFixture()
  const app = await fixture.backend((_, res) => void res.writeHead(426).end())
  fixture.commit({ backends: [app] })
  const { status } = await fixture.get('/', { headers: { connection: 'Upgrade', upgrade: 'websocket' } })
  expect([status, app.hits()]).toEqual([426, 1])
})

it('many requests to unknown hostnames cause only a few queries to control', async () => {
  await using fixture = await gatewayFixture()
  const before = fixture.asked()
  const ask = (n: number) => fixture.get('/', { headers: { host: `nobody-${n}.localhost` } })
  const answers = await Promise.all(Array.from({ length: 300 }, (_, n) => ask(n)))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([404]))
  expect(fixture.asked() - before).toBeLessThan(60)
})

describe('the route table', () => {
  it('delays a request only for a bounded time when control does not respond', async () => {
    await using cleanup = new AsyncDisposableStack()
    const bus = createMemoryBus()
    cleanup.defer(() => bus.close())
    const silent = Promise.withResolvers<never>()
    let asked = 0
    await bus.serve(gatewaySubjects.routes, () => (asked++ === 0 ? { version: 1, routes: [] } : silent.promise))
    const table = await startRouteTable({ bus, log: pino({ level: 'silent' }) })
    cleanup.defer(() => table.stop())
    await until(() => table.loaded(), { what: 'the table is loaded' })
    expect(await table.current('app.localhost')).toBeUndefined()
    expect(asked).toBe(2)
  })

  it('stops delaying requests after control has responded with an error', async () => {
    await using cleanup = new AsyncDisposableStack()
    const bus = createMemoryBus()
    cleanup.defer(() => bus.close())
    let asked = 0
    await bus.serve(gatewaySubjects.routes, () => {
      if (asked++ === 0) return { version: 1, routes: [] }
      throw new Error('no database')
    })
    const table = await startRouteTable({ bus, log: pino({ level: 'silent' }) })
    cleanup.defer(() => table.stop())
    await until(() => table.loaded(), { what: 'the table is loaded' })
    await table.current('app.localhost')
    const before = asked
    for (let n = 0; n < 20; n++) expect(await table.current('app.localhost')).toBeUndefined()
    expect(asked).toBe(before)
  })
})
