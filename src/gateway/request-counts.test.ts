import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import pino from 'pino'
import { expect, it } from 'vitest'
import { gatewayFixture, hostname } from '../../test/support/gateway/gateway.ts'
import { until } from '../../test/support/wait.ts'
import { createMemoryBus } from '../bus/memory.ts'
import type { Route } from '../contract/gateway.ts'
import {
  type CountsReport,
  type RequestCounts,
  countsSubject,
  latencyBoundsMs,
  latencyBuckets,
} from '../contract/request-counts.ts'
import { startCountsReporter } from './counts-report.ts'
import { bucketOf, createRequestCounter } from './request-counts.ts'

const plain = { status: 200, byGateway: false, bytesIn: 1, bytesOut: 2, latencyMs: 4 }
const log = pino({ level: 'silent' })

it('each latency has a bucket', () => {
  expect([0, 1, 1.1, 60_000, 60_001].map(bucketOf)).toEqual([0, 0, 1, latencyBuckets - 2, latencyBuckets - 1])
  expect(latencyBoundsMs.map(bucketOf)).toEqual(latencyBoundsMs.map((_, index) => index))
})

it('each request counts in one status class, and requests without a response have no latency', () => {
  const counter = createRequestCounter()
  for (const status of [101, 200, 204, 301, 404, 500]) counter.add({ ...plain, appId: 'a', status })
  counter.add({ ...plain, appId: 'a', status: 499, latencyMs: undefined })
  counter.add({ ...plain, appId: 'b', status: 502, byGateway: true })
  const [a, b] = counter.take()
  expect(a).toMatchObject({ statuses: [1, 2, 1, 1, 1], aborted: 1, gatewayErrors: 0, bytesIn: 7, bytesOut: 14 })
  expect(a?.latency.reduce((sum, n) => sum + n)).toBe(6)
  expect(b).toMatchObject({ appId: 'b', statuses: [0, 0, 0, 0, 1], gatewayErrors: 1 })
  expect(counter.take()).toEqual([])
})

it('each attempt to send a request to a VM counts once, as failed if any failure is reported', () => {
  const { attempts } = createRequestCounter()
  const canary = { deploymentId: 'd', percent: 10, backends: [{ vmId: 'new', host: '::1', port: 80 }] }
  const route: Route = {
    hostname,
    projectId: 'p',
    appId: 'a',
    state: 'live',
    backends: [],
    drainSeconds: 0,
    version: 1,
    canary,
  }
  for (const status of [200, 404, 500]) attempts.attempt(route, 'old').answered(status)
  const cut = attempts.attempt(route, 'new')
  cut.answered(200)
  cut.failed()
  cut.failed()
  attempts.attempt(route, 'unanswered')
  expect(attempts.hasCanary()).toBe(true)
  expect(attempts.take()).toEqual({
    canaries: [{ deploymentId: 'd', requests: 1, failed: 1 }],
    vms: [
      { vmId: 'old', requests: 3, failed: 1 },
      { vmId: 'new', requests: 1, failed: 1 },
    ],
  })
  expect(attempts.take()).toEqual({ canaries: [], vms: [] })
})

it('a report is repeated with the same number until it is accepted, and no request is lost', async () => {
  await using bus = closing(createMemoryBus())
  const counter = createRequestCounter()
  const reporter = startCountsReporter({ bus, log }, counter, 3_600_000)
  counter.add({ ...plain, appId: 'a' })
  expect(await reporter.flush()).toBe(false)
  counter.add({ ...plain, appId: 'a' })
  const reports: CountsReport[] = []
  let accepts = false
  await bus.serve(countsSubject, data => {
    reports.push(data as CountsReport)
    if (!accepts) throw new Error('the database is away')
    return {}
  })
  expect(await reporter.flush()).toBe(false)
  accepts = true
  await reporter.stop()
  expect(reports.map(({ seq, apps }) => [seq, apps[0]?.statuses[1]])).toEqual([
    [1, 1],
    [1, 1],
    [2, 1],
  ])
  expect(new Set(reports.map(({ reporterId }) => reporterId)).size).toBe(1)
})

it('many apps are split into bounded reports', async () => {
  await using bus = closing(createMemoryBus())
  const sizes: number[] = []
  await bus.serve(countsSubject, data => {
    sizes.push((data as CountsReport).apps.length)
    return {}
  })
  const counter = createRequestCounter()
  for (let app = 0; app < 1201; app++) counter.add({ ...plain, appId: `${app}` })
  const reporter = startCountsReporter({ bus, log }, counter, 3_600_000)
  await reporter.stop()
  expect(sizes).toEqual([500, 500, 201])
})

it('the gateway counts responses, body bytes, its own errors, aborted requests and WebSockets', async () => {
  const reports: CountsReport[] = []
  let counted: RequestCounts | undefined
  {
    await using fixture = await gatewayFixture()
    await fixture.bus.serve(countsSubject, data => {
      reports.push(data as CountsReport)
      return {}
    })
    const app = await fixture.backend((req, res) => {
      if (req.url === '/hang') return
      if (req.url === '/cut') return void req.socket.destroy()
      req.resume().once('end', () => res.writeHead(Number(req.url?.slice(1)) || 200).end('12345'))
    })
    app.server.on('upgrade', (_request, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
      socket.on('data', (chunk: Buffer) => void socket.end(chunk))
    })
    await fixture.publish({ backends: [app] })
    for (const path of ['/200', '/200', '/302', '/404', '/500']) await fixture.get(path)
    expect((await fixture.get('/cut')).status).toBe(502)

    const { port } = fixture.gateway
    const upload = httpRequest({ port, method: 'POST', path: '/201', agent: false, headers: { host: hostname } })
    upload.write('x'.repeat(70_000))
    upload.end('y'.repeat(1000))
    const [answer] = await once(upload, 'response')
    answer.resume()
    await once(answer, 'end')

    const hanging = httpRequest({ port, path: '/hang', agent: false, headers: { host: hostname } })
    hanging.on('error', () => {}).end()
    const before = app.hits()
    await until(() => app.hits() > before, { what: 'the request to reach the app' })
    hanging.destroy()

    const socket = connect(port, '127.0.0.1')
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${hostname}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`)
    await once(socket, 'data')
    socket.write('ping')
    socket.resume()
    await once(socket, 'close')

    await fixture.publish({ state: 'down', backends: [] })
    expect((await fixture.get('/')).status).toBe(503)
    expect((await fixture.get('/', { headers: { host: 'unknown.localhost' } })).status).toBe(404)
  }
  for (const one of reports.flatMap(report => report.apps))
    counted = counted
      ? {
          ...one,
          statuses: one.statuses.map((n, digit) => n + (counted?.statuses[digit] ?? 0)),
          latency: one.latency.map((n, bucket) => n + (counted?.latency[bucket] ?? 0)),
          aborted: one.aborted + counted.aborted,
          gatewayErrors: one.gatewayErrors + counted.gatewayErrors,
          bytesIn: one.bytesIn + counted.bytesIn,
          bytesOut: one.bytesOut + counted.bytesOut,
        }
      : one
  expect(counted).toMatchObject({
    appId: 'a',
    statuses: [1, 3, 1, 1, 3],
    aborted: 1,
    gatewayErrors: 2,
    bytesIn: 71_000 + 'ping'.length,
    bytesOut: 6 * '12345'.length + 'ping'.length,
  })
  expect(counted?.latency.reduce((sum, n) => sum + n)).toBe(9)
})

const closing = <B extends { close(): Promise<void> }>(bus: B) =>
  Object.assign(bus, { [Symbol.asyncDispose]: () => bus.close() })
