/**
 * Tests how requests are distributed among replicas, how failures are handled, and which requests are counted and
 * refused.
 */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type IncomingMessage, type ServerResponse, request } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { until } from '../../test/support/wait.ts'
import { gatewayDefaults } from './config.ts'
import { gatewayFixture, hostname } from '../../test/support/gateway/gateway.ts'

const answer = (_: IncomingMessage, res: ServerResponse) => void res.end('ok')
const refusing = (vmId: string) => ({ vmId, host: '127.0.0.1', port: 1 })

it('the gateway spreads requests evenly, and sends fewer to a slow replica', async () => {
  await using fixture = await gatewayFixture()
  const held: ServerResponse[] = []
  const [a, b, slow] = [
    await fixture.backend(answer),
    await fixture.backend(answer),
    await fixture.backend((_, res) => void held.push(res)),
  ]
  await fixture.publish({ backends: [a, b] })
  for (let n = 0; n < 40; n++) await fixture.get()
  expect([a.hits(), b.hits()]).toEqual([20, 20])
  await fixture.publish({ backends: [a, b, slow] })
  const asked: Promise<unknown>[] = []
  for (let n = 0; n < 20; n++) {
    const before = held.length
    const one = fixture.get()
    asked.push(one)
    await Promise.race([one, until(() => held.length > before, { what: 'an answer, or one that is held' })])
  }
  expect(slow.hits()).toBe(1)
  for (const res of held) res.end()
  await Promise.all(asked)
})

it('the gateway sends no requests to a replica after it has refused one connection', async () => {
  await using fixture = await gatewayFixture()
  const good = await fixture.backend(answer)
  let tries = 0
  const dead = await fixture.backend(answer)
  dead.server.on('connection', () => tries++)
  await new Promise(resolve => dead.server.close(resolve))
  await fixture.publish({ backends: [dead, good] })
  const statuses = new Set<number>()
  for (let n = 0; n < 30; n++) statuses.add((await fixture.get()).status)
  expect(statuses).toEqual(new Set([200]))
  expect(good.hits()).toBe(30)
  expect(tries).toBe(0)
})

it('the gateway sends requests to a failed replica again once it responds', async () => {
  await using fixture = await gatewayFixture()
  const good = await fixture.backend(answer)
  const flaky = await fixture.backend((req, res) => {
    if (flaky.hits() <= 1) return void req.socket.destroy()
    res.end('ok')
  })
  await fixture.publish({ backends: [flaky, good] })
  const { port } = flaky
  await new Promise(resolve => flaky.server.close(resolve))
  for (let n = 0; n < 4; n++) expect((await fixture.get()).status).toBe(200)
  expect(flaky.hits()).toBe(0)
  flaky.server.listen(port, '127.0.0.1')
  await once(flaky.server, 'listening')
  await until(async () => (await fixture.get()).status === 200 && flaky.hits() > 2, {
    timeoutMs: 8000,
    everyMs: 50,
    what: 'the replica serves again',
  })
})

it('the gateway retries an idempotent request once, on another replica, when the connection breaks', async () => {
  await using fixture = await gatewayFixture()
  const breaking = [1, 2, 3].map(() => fixture.backend(req => void req.socket.destroy()))
  const backends = await Promise.all(breaking)
  const hits = () => backends.reduce((sum, one) => sum + one.hits(), 0)
  await fixture.publish({ backends })
  expect((await fixture.get()).status).toBe(502)
  expect(hits()).toBe(2)
  expect((await fixture.get('/', { method: 'POST' })).status).toBe(502)
  expect(hits()).toBe(3)
})

it('the gateway retries a request that reached no replica, whatever its method', async () => {
  await using fixture = await gatewayFixture()
  const good = await fixture.backend(answer)
  await fixture.publish({ backends: [refusing('x'), refusing('y'), good] })
  for (let n = 0; n < 3; n++) expect((await fixture.get('/', { method: 'POST' })).status).toBe(200)
})

it('requests and WebSockets of a removed replica get the drain time to finish', async () => {
  await using fixture = await gatewayFixture()
  const begun: ServerResponse[] = []
  const old = await fixture.backend((_, res) => void begun.push(res))
  old.server.on('upgrade', (_req, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n')
    socket.on('error', () => {})
  })
  const next = await fixture.backend(answer)
  await fixture.publish({ backends: [old] })
  const [short, long] = [fixture.get('/short', { method: 'POST' }), fixture.get('/long', { method: 'POST' })]
  const socket = connect(fixture.gateway.port, '127.0.0.1').on('error', () => {})
  const closed = once(socket, 'close')
  socket.write(`GET / HTTP/1.1\r\nhost: ${hostname}\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n`)
  await once(socket, 'data')
  await until(() => begun.length === 2, { what: 'both requests are pending' })
  const [first] = begun
  await fixture.publish({ backends: [next] })
  expect((await fixture.get()).body).toBe('ok')
  first?.end('done')
  expect((await Promise.race([short, long])).body).toBe('done')
  await closed
  const answers = await Promise.all([short, long])
  expect(answers.map(one => one.status).sort()).toEqual([200, 502])
})

it('the gateway refuses requests above the limits of an app and of a client address', async () => {
  const limits = { ...gatewayDefaults.limits, appOpen: 3, clientOpen: 2 }
  await using fixture = await gatewayFixture({ limits, trustedProxies: ['127.0.0.1'] })
  const held: ServerResponse[] = []
  const app = await fixture.backend((_, res) => void held.push(res))
  await fixture.publish({ backends: [app] })
  const from = (address: string) => fixture.get('/', { headers: { 'x-forwarded-for': `6.6.6.6, ${address}` } })
  const open = [from('10.0.0.1'), from('10.0.0.1')]
  await until(() => held.length === 2, { what: 'two are open' })
  const tooMany = await from('10.0.0.1')
  expect([tooMany.status, tooMany.headers['retry-after']]).toEqual([429, '1'])
  open.push(from('10.0.0.2'))
  await until(() => held.length === 3, { what: 'three are open' })
  expect((await from('10.0.0.3')).status).toBe(503)
  for (const res of held.splice(0)) res.end('ok')
  expect((await Promise.all(open)).map(one => one.status)).toEqual([200, 200, 200])
  open.push(from('10.0.0.1'))
  await until(() => held.length === 1, { what: 'there is room again' })
  held[0]?.end()
})

it('the gateway closes connections above the limit of a client address at once', async () => {
  const limits = { ...gatewayDefaults.limits, connectionsPerClient: 2 }
  await using fixture = await gatewayFixture({ limits })
  const sockets = [1, 2].map(() => connect(fixture.gateway.port, '127.0.0.1'))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  const third = connect(fixture.gateway.port, '127.0.0.1').on('error', () => {})
  await once(third, 'close')
  sockets[0]?.destroy()
  await until(async () => (await fixture.get().catch(() => undefined))?.status === 404, { what: 'there is room again' })
  sockets[1]?.destroy()
})

it('the gateway reports to control how many requests were served, and how long they took', async () => {
  const fixture = await gatewayFixture()
  const app = await fixture.backend(
    (req, res) => void (req.url === '/fail' ? res.writeHead(500).end() : res.end('12345')),
  )
  await fixture.publish({ backends: [app] })
  await fixture.get()
  await fixture.get('/fail')
  await fixture.gateway.stop(0)
  const reports = fixture.reports.filter(({ apps }) => apps.length > 0)
  expect(reports).toHaveLength(1)
  const [report] = reports
  expect(report?.apps).toMatchObject([{ appId: 'a', requests: 2, errors: 1, open: 0, refused: 0, bytes: 5 }])
  expect(report?.apps[0]?.busyMs).toBeGreaterThan(0)
  expect(Math.abs(Date.now() - (report?.apps[0]?.lastRequestAtMs ?? 0))).toBeLessThan(60_000)
  await fixture[Symbol.asyncDispose]()
})

it('the gateway writes a log line per request, without query string, headers and credentials', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'mote-access-'))
  const accessLog = join(dir, 'logs', 'access.jsonl')
  const fixture = await gatewayFixture({ accessLog })
  const app = await fixture.backend((_, res) => void res.end('12345'))
  await fixture.publish({ backends: [app] })
  const headers = { authorization: 'Bearer sesame', cookie: 'id=sesame' }
  await fixture.get('/path?token=sesame', { headers })
  await fixture.get('/nothing', { headers: { host: 'nobody.localhost' } })
  await fixture[Symbol.asyncDispose]()
  const text = await readFile(accessLog, 'utf8')
  const lines = text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(lines).toMatchObject([
    {
      host: hostname,
      app: 'a',
      project: 'p',
      method: 'GET',
      path: '/path',
      status: 200,
      bytes: 5,
      vm: app.vmId,
      tries: 1,
    },
    { host: 'nobody.localhost', app: null, path: '/nothing', status: 404, vm: null, gateway_said: 'not_found' },
  ])
  expect(text).not.toContain('sesame')
  await rm(dir, { recursive: true })
})

it('several gateways serve the same routes, request a wake once each, and report separately', async () => {
  const fixture = await gatewayFixture()
  const second = await fixture.add()
  const app = await fixture.backend(answer)
  await fixture.publish({ state: 'sleeping' })
  const asked = [1, 2, 3, 4].map(n => fixture.get('/', n % 2 === 0 ? { port: second.port } : {}))
  await until(() => fixture.wakes.length === 2, { what: 'both gateways have requested a wake' })
  await fixture.publish({ backends: [app] })
  expect((await Promise.all(asked)).map(one => one.status)).toEqual([200, 200, 200, 200])
  await Promise.all(fixture.gateways.map(one => one.stop(0)))
  expect(new Set(fixture.reports.map(report => report.gatewayId)).size).toBe(2)
  expect(fixture.reports.flatMap(report => report.apps.map(app => app.requests))).toEqual([2, 2])
  await fixture[Symbol.asyncDispose]()
})

it('the gateway forwards exactly one Host, and refuses requests with two of them or an absolute URL (RFC 9112, 3.2)', async () => {
  await using fixture = await gatewayFixture()
  const app = await fixture.backend((req, res) => {
    const hosts = req.rawHeaders.filter((_, n) => n % 2 === 0 && req.rawHeaders[n]?.toLowerCase() === 'host')
    res.end(JSON.stringify({ hosts: hosts.length, host: req.headers.host }))
  })
  await fixture.publish({ backends: [app] })
  const raw = (head: string) =>
    new Promise<string>(resolve => {
      let text = ''
      const socket = connect(fixture.gateway.port, '127.0.0.1')
      socket
        .setEncoding('utf8')
        .on('data', chunk => (text += chunk))
        .once('close', () => resolve(text))
      socket.write(`${head}\r\nconnection: close\r\n\r\n`)
    })
  expect(await raw(`GET / HTTP/1.1\r\nhost: ${hostname}`)).toContain(`{"hosts":1,"host":"${hostname}"}`)
  expect(await raw(`GET / HTTP/1.1\r\nhost: ${hostname}\r\nhost: other.localhost`)).toMatch(/^HTTP\/1\.1 400 /)
  expect(await raw(`GET http://other.localhost/ HTTP/1.1\r\nhost: ${hostname}`)).toContain('400')
})

it('a graceful stop lets pending requests finish before their connections are closed', async () => {
  const fixture = await gatewayFixture()
  const held: ServerResponse[] = []
  const app = await fixture.backend((_, res) => void held.push(res))
  await fixture.publish({ backends: [app] })
  const asked = request({ port: fixture.gateway.port, headers: { host: hostname, connection: 'keep-alive' } })
  const response = once(asked, 'response')
  asked.end()
  await until(() => held.length === 1, { what: 'the request is pending' })
  const stopped = fixture.gateway.stop(5000)
  held[0]?.end('done')
  const [res] = await response
  res.resume()
  await once(res, 'end')
  expect(res.statusCode).toBe(200)
  await stopped
  await fixture[Symbol.asyncDispose]()
})
