/**
 * Tests a VM that is about to move: new requests wait, pending ones finish, and every gateway reports its pending
 * requests to control.
 */
import { once } from 'node:events'
import { type ServerResponse, request } from 'node:http'
import { expect, it } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { type GatewayFixture, gatewayFixture, hostname } from '../../test/support/gateway/gateway.ts'

const moveId = 'move-1'
/** Returns the number of open requests in the last report of each gateway. */
const openAt = ({ reports }: GatewayFixture) => {
  const last = new Map(
    reports.map(({ gatewayId, leaving }) => [gatewayId, leaving?.find(one => one.moveId === moveId)]),
  )
  return [...last.values()].map(one => one?.open)
}

it('new requests to a moving VM wait and continue at its new address on new connections, and pending ones finish', async () => {
  await using fixture = await gatewayFixture()
  const other = await fixture.add()
  const held: ServerResponse[] = []
  const old = await fixture.backend((_, res) => void held.push(res))
  await fixture.publish({ backends: [old] })
  const underWay = fixture.get('/under-way')
  await until(() => held.length === 1, { what: 'a request is pending' })

  await fixture.publish({ state: 'sleeping', leaving: [{ vmId: old.vmId, moveId }] })
  await until(() => openAt(fixture).toSorted().join() === '0,1', { what: 'both gateways have reported' })
  const waiting = [fixture.get('/new'), fixture.get('/new', { port: other.port })]
  held[0]?.end('old')
  expect((await underWay).body).toBe('old')
  await until(() => openAt(fixture).join() === '0,0', { what: 'no request is pending' })
  expect(old.hits()).toBe(1)

  const there = await fixture.backend((_, res) => void res.end('new'))
  await fixture.publish({ backends: [{ ...there, vmId: old.vmId }] })
  expect((await Promise.all(waiting)).map(({ status, body }) => [status, body])).toEqual([
    [200, 'new'],
    [200, 'new'],
  ])
  expect([old.hits(), there.hits()]).toEqual([1, 2])
})

it('after a failed move, held requests continue at the old address on a new connection', async () => {
  await using fixture = await gatewayFixture()
  let connections = 0
  const app = await fixture.backend((_, res) => void res.end('here'))
  app.server.on('connection', () => connections++)
  await fixture.publish({ backends: [app] })
  await fixture.get()
  await fixture.publish({ state: 'sleeping', leaving: [{ vmId: app.vmId, moveId }] })
  const waiting = fixture.get()
  await fixture.publish({ backends: [app] })
  expect((await waiting).body).toBe('here')
  expect(connections).toBe(2)
  await until(() => fixture.reports.at(-1)?.leaving === undefined, { what: 'no VM is leaving' })
})

it('while one replica is about to move, new requests go to another one', async () => {
  await using fixture = await gatewayFixture()
  const [stays, leaves] = [
    await fixture.backend((_, res) => void res.end('stays')),
    await fixture.backend((_, res) => void res.end('leaves')),
  ]
  await fixture.publish({ backends: [stays, leaves] })
  await fixture.publish({ backends: [stays], leaving: [{ vmId: leaves.vmId, moveId }] })
  const bodies = await Promise.all(Array.from({ length: 10 }, async () => (await fixture.get()).body))
  expect(new Set(bodies)).toEqual(new Set(['stays']))
})

it('a request that is held for too long gets 503 with Retry-After', async () => {
  await using fixture = await gatewayFixture({ wakeTimeoutMs: 300 })
  const app = await fixture.backend((_, res) => void res.end())
  await fixture.publish({ backends: [app] })
  await fixture.publish({ state: 'sleeping', leaving: [{ vmId: app.vmId, moveId }] })
  const { status, headers } = await fixture.get()
  expect([status, headers['retry-after']]).toEqual([503, '5'])
})

it('held requests above the limit of the app get 503 with Retry-After', async () => {
  await using fixture = await gatewayFixture({
    limits: { appOpen: 2, appPerSecond: 0, clientOpen: 0, clientPerSecond: 0, connections: 0, connectionsPerClient: 0 },
  })
  const app = await fixture.backend((_, res) => void res.end('ok'))
  await fixture.publish({ state: 'sleeping', leaving: [{ vmId: app.vmId, moveId }] })
  const asked = [fixture.get(), fixture.get(), fixture.get()]
  const first = await Promise.race(asked)
  expect([first.status, first.headers['retry-after']]).toEqual([503, '5'])
  await fixture.publish({ backends: [app] })
  expect((await Promise.all(asked)).map(({ status }) => status).toSorted()).toEqual([200, 200, 503])
})

it('a gateway that shuts down does not wait for event streams', async () => {
  await using fixture = await gatewayFixture()
  const app = await fixture.backend((_, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write('data: 1\n\n')
  })
  await fixture.publish({ backends: [app] })
  const asked = request({ port: fixture.gateway.port, headers: { host: hostname }, agent: false }).end()
  const [answer] = await once(asked, 'response')
  answer.on('error', () => {})
  await once(answer, 'data')
  await fixture.publish({ state: 'sleeping', leaving: [{ vmId: app.vmId, moveId }] })
  await until(() => openAt(fixture).join() === '0', { what: 'no request is waited for' })
  asked.on('error', () => {}).destroy()
})

it('a VM counts as in use while another hostname of its app routes to it', async () => {
  await using fixture = await gatewayFixture()
  const app = await fixture.backend((_, res) => void res.end())
  const leaving = [{ vmId: app.vmId, moveId }]
  await fixture.publish({ backends: [app] })
  await fixture.publish({ hostname: 'www.example.com', backends: [app] })
  await fixture.publish({ state: 'sleeping', leaving })
  await until(() => openAt(fixture).join() === '1', { what: 'the other name counts' })
  await fixture.publish({ hostname: 'www.example.com', state: 'sleeping', leaving })
  await until(() => openAt(fixture).join() === '0', { what: 'no name leads to it' })
})
