/** Tests how the gateway closes its connection to an app after the app has closed it. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { gatewayFixture } from '../../test/support/gateway/gateway.ts'
import { until } from '../../test/support/wait.ts'

/** What the app observed at the end of each connection: the code of a socket error, or `FIN`. */
const ends: string[] = []
const body = 'x'.repeat(300_000)
/**
 * Headers of three kinds of responses after which the app closes the connection. Without a length, the close also marks
 * the end of the body (RFC 9112, 6.3).
 */
const heads = [
  'HTTP/1.0 200 OK',
  'HTTP/1.1 200 OK\r\nconnection: close',
  `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: ${body.length}`,
]
let connections = 0
const app = createServer({ allowHalfOpen: true }, (socket: Socket) => {
  socket.once('data', () => socket.end(`${heads[connections++ % heads.length]}\r\n\r\n${body}`))
  socket.once('error', error => ends.push(String(Reflect.get(error, 'code'))))
  socket.once('end', () => ends.push('FIN'))
  socket.resume()
})
beforeAll(async () => {
  await once(app.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => app.close())

it.each([
  ['with a reset if the VM uses gVisor', true, 'ECONNRESET'],
  ['with a FIN in other VMs', undefined, 'FIN'],
] as const)('a connection that the app has closed ends %s', async (_what, resetsClosed, end) => {
  ends.length = 0
  await using fixture = await gatewayFixture()
  const { port } = app.address() as AddressInfo
  const backend = { vmId: `vm-${end}`, host: '127.0.0.1', port, ...(resetsClosed ? { resetsClosed } : {}) }
  await fixture.publish({ backends: [backend] })
  for (let n = 0; n < 6; n++) {
    const answer = await fixture.get('/')
    expect([answer.status, answer.body.length]).toEqual([200, body.length])
  }
  await until(() => ends.length === 6, { what: 'the ends' })
  expect(new Set(ends)).toEqual(new Set([end]))
})
