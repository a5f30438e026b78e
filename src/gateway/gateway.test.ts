import { once } from 'node:events'
import { type IncomingMessage, type Server, type ServerResponse, createServer, request as httpRequest } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import pino from 'pino'
import { Agent } from 'undici'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createMemoryBus } from '../bus/memory.ts'
import type { Bus } from '../bus/bus.ts'
import { type Route, gatewaySubjects } from '../contract/gateway.ts'
import { until } from '../../test/support/wait.ts'
import { gatewayDefaults } from './config.ts'
import { type Gateway, startGateway } from './main.ts'

const log = pino({ level: 'silent' })
const hostname = 'hello-demo.localhost'

describe('gateway', () => {
  let bus: Bus
  let gateway: Gateway
  let wakes: string[]
  const table = new Map<string, Route>()
  const servers: Server[] = []
  let version = 0

  const backend = async (handler: (req: IncomingMessage, res: ServerResponse) => void) => {
    const server = createServer(handler)
    servers.push(server)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return { server, host: '127.0.0.1', port: (server.address() as AddressInfo).port, vmId: `vm-${servers.length}` }
  }
  const publish = async (change: Partial<Route>) => {
    const route: Route = {
      hostname,
      projectId: 'p',
      appId: 'a',
      state: 'live',
      backends: [],
      drainSeconds: 1,
      ...change,
      version: ++version,
    }
    table.set(route.hostname, route)
    await bus.publish(gatewaySubjects.routeChanged, route)
  }
  const target = ({ host, port, vmId }: { host: string; port: number; vmId: string }) => ({ host, port, vmId })
  const get = (path = '/', headers: Record<string, string> = {}) =>
    new Promise<{ status: number; body: string; headers: IncomingMessage['headers'] }>((resolve, reject) => {
      const req = httpRequest({ port: gateway.port, path, headers: { host: `${hostname}:7080`, ...headers } }, res => {
        let body = ''
        res
          .setEncoding('utf8')
          .on('data', chunk => (body += chunk))
          .on('end', () => resolve({ status: res.statusCode ?? 0, body, headers: res.headers }))
      })
      req.on('error', reject).end()
    })

  beforeEach(async () => {
    bus = createMemoryBus()
    wakes = []
    table.clear()
    await bus.serve(gatewaySubjects.routes, () => ({ version: version + 1, routes: [...table.values()] }))
    await bus.serve(gatewaySubjects.wake, data => {
      wakes.push((data as { appId: string }).appId)
      return {}
    })
    gateway = await startGateway({ ...gatewayDefaults, host: '127.0.0.1', port: 0, wakeTimeoutMs: 3000 }, { bus, log })
    await until(() => gateway.ready(), { what: 'the gateway has its routes' })
  })
  afterEach(async () => {
    await gateway.stop(100)
    await bus.close()
    for (const server of servers.splice(0)) {
      server.closeAllConnections()
      server.close()
    }
  })

  it('responds 404 to an unknown hostname, 503 for an app without a healthy VM, and 400 without a valid host', async () => {
    expect((await get()).status).toBe(404)
    await publish({ state: 'down' })
    await until(async () => (await get()).status === 503, { what: 'the route is down' })
    expect((await get()).headers['retry-after']).toBe('5')
    expect((await get('/', { host: 'a b' })).status).toBe(400)
    const json = await get('/', { accept: 'application/json' })
    expect(JSON.parse(json.body)).toMatchObject({ status: 503, code: 'starting' })
  })

  it('forwards request and response, and passes the client address to the app, ignoring forged ones', async () => {
    const app = await backend((req, res) => {
      res.setHeader('x-app', 'yes').end(JSON.stringify({ url: req.url, headers: req.headers }))
    })
    await publish({ backends: [target(app)] })
    await until(async () => (await get()).status === 200, { what: 'the route is live' })
    const answer = await get('/path?q=1', { 'x-forwarded-for': '6.6.6.6', connection: 'x-private', 'x-private': '1' })
    const observed = JSON.parse(answer.body) as { url: string; headers: Record<string, string> }
    expect(answer.headers['x-app']).toBe('yes')
    expect(observed.url).toBe('/path?q=1')
    expect(observed.headers.host).toBe(`${hostname}:7080`)
    expect(observed.headers['x-forwarded-for']).toBe('127.0.0.1')
    expect(observed.headers['x-forwarded-host']).toBe(`${hostname}:7080`)
    expect(observed.headers['x-private']).toBeUndefined()
  })

  it('forwards data both ways at once: the echo of the first chunk arrives before the second one is sent', async () => {
    const app = await backend((req, res) => void req.pipe(res))
    await publish({ backends: [target(app)] })
    await until(async () => (await get()).status === 200, { what: 'the route is live' })
    const req = httpRequest({
      port: gateway.port,
      method: 'POST',
      headers: { host: hostname, 'transfer-encoding': 'chunked' },
    })
    req.write('first')
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    res.setEncoding('utf8')
    const [echo] = (await once(res, 'data')) as [string]
    expect(echo).toBe('first')
    const ended = once(res, 'end')
    const second = once(res, 'data')
    req.end('second')
    expect(await second).toEqual(['second'])
    await ended
  })

  it('refuses a request with two Host headers, whichever of them has a route', async () => {
    const app = await backend((_, res) => void res.end('reached'))
    await publish({ backends: [target(app)] })
    await until(async () => (await get()).status === 200, { what: 'the route is live' })
    for (const hosts of [
      [hostname, hostname],
      [hostname, 'other.example'],
      ['other.example', hostname],
    ])
      for (const upgrade of ['', 'upgrade: websocket\r\nconnection: upgrade\r\n']) {
        const socket = connect(gateway.port, '127.0.0.1')
        socket.write(`GET / HTTP/1.1\r\n${hosts.map(host => `host: ${host}\r\n`).join('')}${upgrade}\r\n`)
        const [data] = (await once(socket, 'data')) as [Buffer]
        expect(data.toString()).toMatch(/^HTTP\/1\.1 400 /)
        socket.destroy()
      }
  })

  it('forwards WebSocket upgrades and data in both directions', async () => {
    const app = await backend(() => {})
    app.server.on('upgrade', (req, socket) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n`)
      socket.on('data', (chunk: Buffer) => socket.write(`${req.headers['x-forwarded-for']}:${chunk.toString()}`))
    })
    await publish({ backends: [target(app)] })
    await until(async () => (await rawStatus(gateway.port)) !== 404, { what: 'the route is live' })
    const socket = connect(gateway.port, '127.0.0.1')
    socket.setEncoding('utf8')
    socket.write(`GET /ws HTTP/1.1\r\nhost: ${hostname}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n`)
    const [head] = (await once(socket, 'data')) as [string]
    expect(head).toContain('101 Switching Protocols')
    socket.write('ping')
    const [echo] = (await once(socket, 'data')) as [string]
    expect(echo).toBe('127.0.0.1:ping')
    socket.destroy()
  })

  it('switches the route under load without a failed request', async () => {
    const slow = (name: string) => (_: IncomingMessage, res: ServerResponse) => void setTimeout(() => res.end(name), 5)
    const [blue, green] = [await backend(slow('blue')), await backend(slow('green'))]
    await publish({ backends: [target(blue)] })
    await until(async () => (await get()).status === 200, { what: 'the route is live' })
    const agent = new Agent({ connections: 20 })
    const answers: string[] = []
    let running = true
    const client = async () => {
      while (running) {
        const { statusCode, body } = await agent.request({
          origin: `http://127.0.0.1:${gateway.port}`,
          path: '/',
          method: 'GET',
          headers: { host: hostname },
        })
        answers.push(`${statusCode} ${await body.text()}`)
      }
    }
    const clients = Array.from({ length: 20 }, client)
    for (let n = 0; n < 6; n++) {
      const before = answers.length
      await publish({ backends: [target(n % 2 === 0 ? green : blue)] })
      await until(() => answers.length > before + 50, { what: 'requests after the switch' })
    }
    running = false
    await Promise.all(clients)
    await agent.close()
    expect(answers.filter(a => !a.startsWith('200'))).toEqual([])
    expect(new Set(answers)).toEqual(new Set(['200 blue', '200 green']))
  })

  it('wakes a sleeping app once for a hundred requests and serves them all', async () => {
    const app = await backend((_, res) => void res.end('awake'))
    await publish({ state: 'sleeping' })
    const all = Promise.all(Array.from({ length: 100 }, () => get()))
    await until(() => wakes.length > 0, { what: 'the wake is requested' })
    await publish({ backends: [target(app)] })
    const answers = await all
    expect(answers.every(a => a.status === 200 && a.body === 'awake')).toBe(true)
    expect(wakes).toEqual(['a'])
  })

  it('tries another replica when the first refuses the connection, and responds 502 when none is left', async () => {
    const app = await backend((_, res) => void res.end('ok'))
    const dead = { vmId: 'dead', host: '127.0.0.1', port: 1 }
    await publish({ backends: [dead, target(app)] })
    await until(async () => (await get()).status === 200, { what: 'the route is live' })
    expect((await get()).body).toBe('ok')
    await publish({ backends: [dead] })
    await until(async () => (await get()).status === 502, { timeoutMs: 4000, what: 'all resources are released' })
  })

  it('requests to a VM that moved are retried at its new address, unless that could repeat an effect', async () => {
    let asked = 0
    const silent = await backend((req, res) => void (req.url === '/up' ? res.end() : asked++))
    const moved = await backend((_, res) => void res.end('here'))
    await publish({ backends: [target(silent)] })
    await until(async () => (await get('/up')).status === 200, { what: 'the route is live' })
    const reads = Array.from({ length: 5 }, () => get())
    const write = new Promise<number>((resolve, reject) => {
      httpRequest({ port: gateway.port, method: 'POST', headers: { host: hostname } }, res =>
        resolve(res.resume().statusCode ?? 0),
      )
        .on('error', reject)
        .end('data')
    })
    await until(() => asked === 6, { what: 'all requests are pending' })
    // During the move, the route has no backend; afterwards, it has one with another address.
    await publish({ state: 'sleeping' })
    const held = get()
    await publish({ backends: [{ ...target(moved), vmId: silent.vmId }] })
    expect((await Promise.all([...reads, held])).map(answer => answer.body)).toEqual(Array(6).fill('here'))
    expect(await write).toBe(502)
  })

  it('a response that breaks off within a small body is retried', async () => {
    let begun = 0
    const leaving = await backend((req, res) => {
      if (req.url === '/up') return void res.end()
      res.writeHead(200, { 'content-length': '4', 'x-from': 'leaving' }).write('he')
      begun++
    })
    const moved = await backend((_, res) => void res.end('here'))
    await publish({ backends: [target(leaving)] })
    await until(async () => (await get('/up')).status === 200, { what: 'the route is live' })
    const answer = get()
    await until(() => begun === 1, { what: 'its answer has begun' })
    await publish({ backends: [{ ...target(moved), vmId: leaving.vmId }] })
    expect((await answer).body).toBe('here')
    expect((await answer).headers['x-from']).toBeUndefined()
  })

  it('a request whose connection breaks shortly before the route changes waits for the change', async () => {
    const gone = { vmId: 'mover', host: '127.0.0.1', port: 1 }
    const moved = await backend((_, res) => void res.end('here'))
    await publish({ backends: [gone] })
    await until(async () => (await rawStatus(gateway.port)) !== 404, { what: 'the route is live' })
    const answer = get()
    await until(() => true, { what: 'a turn of the loop' })
    await publish({ backends: [{ ...target(moved), vmId: 'mover' }] })
    expect((await answer).body).toBe('here')
  })
})

const rawStatus = (port: number) =>
  new Promise<number>(resolve => {
    httpRequest({ port, headers: { host: hostname, upgrade: 'x', connection: 'upgrade' } })
      .on('response', res => resolve(res.statusCode ?? 0))
      .on('upgrade', (_, socket) => {
        socket.destroy()
        resolve(101)
      })
      .on('error', () => resolve(0))
      .end()
  })
