import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcp } from 'node:net'
import { expect, test } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { httpProbe } from './health.ts'

test.each(['//evil.example/x', 'http://evil.example/x', '/../x', '/@evil.example'])(
  'whatever its path says (%s), a health check goes to the app alone',
  async path => {
    const asked: unknown[] = []
    const app = createServer((request, response) => {
      asked.push(request.url)
      // Nor does it go where the app leads it.
      response.writeHead(302, { location: 'http://evil.example/' }).end()
    }).listen(0, '127.0.0.1')
    await once(app, 'listening')
    using _closing = { [Symbol.dispose]: () => void app.close() }
    const to = { host: '127.0.0.1', port: (app.address() as AddressInfo).port }
    const probe = httpProbe({ to, from: undefined }, path)
    // On a busy machine one that is given up early is followed by another.
    await until(() => probe(AbortSignal.timeout(5_000)), { what: 'it is well', timeoutMs: 20_000 })
    expect(new Set(asked)).toEqual(new Set([path]))
  },
)

test.each(['/a b', '/\u0100', '/\r\nX: y'])(
  'a path that cannot be asked for (%j) is an app that is not well',
  async path => {
    const to = { host: '127.0.0.1', port: 1 }
    expect(await httpProbe({ to, from: undefined }, path)(AbortSignal.timeout(5_000))).toBe(false)
  },
)

test.each([
  ['answers before its answer, without end', 'HTTP/1.1 103 Early Hints\r\n\r\n'],
  ['headers without end', 'x: y\r\n'],
])('an app with %s is not well', async (_, line) => {
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
