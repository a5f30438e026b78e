import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { healthTiming, httpProbe, probePauseMs } from './health.ts'

test.each(['//evil.example/x', 'http://evil.example/x', '/../x', '/@evil.example'])(
  'a health check with the path %s only connects to the app',
  async path => {
    const asked: unknown[] = []
    const app = createServer((request, response) => {
      asked.push(request.url)
      // The health check must not follow this redirect.
      response.writeHead(302, { location: 'http://evil.example/' }).end()
    }).listen(0, '127.0.0.1')
    await once(app, 'listening')
    using _closing = { [Symbol.dispose]: () => void app.close() }
    const to = { host: '127.0.0.1', port: (app.address() as AddressInfo).port }
    const probe = httpProbe({ to, from: undefined }, path)
    // On a busy host, a probe may time out before the connection is established, so it is repeated.
    await until(() => probe(AbortSignal.timeout(5_000)), { what: 'it is well' })
    expect(new Set(asked)).toEqual(new Set([path]))
  },
)

test.each(['/a b', '/\u0100', '/\r\nX: y'])(
  'an app with an invalid health check path (%j) is not healthy',
  async path => {
    const to = { host: '127.0.0.1', port: 1 }
    expect(await httpProbe({ to, from: undefined }, path)(AbortSignal.timeout(5_000))).toBe(false)
  },
)

test.each([
  ['endless informational answers', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['endless headers', 'x: y\r\n'],
])('an app that sends %s is unhealthy', async (_, line) => {
  const guest = createTcp(socket => {
    socket.on('error', () => undefined).on('data', () => undefined)
    const more = () => socket.write(line.repeat(1000), error => !error && !socket.destroyed && more())
    socket.write(line.startsWith('HTTP') ? '' : 'HTTP/1.1 200 OK\r\n')
    more()
  }).listen(0, '127.0.0.1')
  await once(guest, 'listening')
  using _closing = { [Symbol.dispose]: () => void guest.close() }
  const to = { host: '127.0.0.1', port: (guest.address() as AddressInfo).port }
  expect(await httpProbe({ to, from: undefined }, '/')(AbortSignal.timeout(60_000))).toBe(false)
})

test('an app is probed often until it is healthy, then less often, and again one second after a failure', () => {
  const pause = (healthy: boolean, failures: number, passes: number) =>
    probePauseMs(healthTiming, { healthy, failures, passes })
  expect([1, 2, 3, 4, 5].map(failures => pause(false, failures, 0))).toSatisfy((all: number[]) =>
    all.every(ms => ms >= 2 && ms <= 30),
  )
  expect(pause(false, 10_000, 0)).toBe(1_000)
  expect([1, 11, 12, 1_000].map(passes => pause(true, 0, passes))).toEqual([5_000, 5_000, 10_000, 10_000])
  expect(pause(true, 1, 0)).toBe(1_000)
})
