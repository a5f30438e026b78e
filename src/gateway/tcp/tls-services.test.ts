/** Tests TCP services selected by TLS server name, on a real gateway with real handshakes. */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { echoVm, received } from '../../../test/support/gateway/echo-vm.ts'
import { type GatewayFixture, gatewayFixture } from '../../../test/support/gateway/gateway.ts'
import { makeCertificate } from '../../../test/support/gateway/tls.ts'
import { until } from '../../../test/support/wait.ts'
import { tlsName } from '../../contract/gateway.ts'

const [broker, other, bare] = ['broker.example.com', 'other.example.com', 'bare.example.com']
let dir: string
let fixture: GatewayFixture
let port: number
const handshakeMs = 700
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-tcp-tls-'))
  await makeCertificate(dir, 'apps', [broker, other])
  fixture = await gatewayFixture({
    tls: { port: undefined, certificates: dir, redirect: false, hstsSeconds: 0 },
    tcpTls: { port: 0, idleMs: 0, handshakeMs },
  })
  port = fixture.gateway.tcpTlsPort ?? 0
})
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await rm(dir, { recursive: true })
})
let cleanup = new AsyncDisposableStack()
afterEach(async () => {
  for (const hostname of [broker, other, bare].map(tlsName)) await fixture.publish({ hostname, state: 'gone' })
  await cleanup.disposeAsync()
  cleanup = new AsyncDisposableStack()
})

const serve = async (name: string, word: string) => {
  const { backend, accepted } = cleanup.use(await echoVm(word))
  await fixture.publish({ hostname: tlsName(name), appId: word, backends: [backend] })
  return { accepted }
}
function dial(servername: string, more: ConnectionOptions & { readonly allowHalfOpen?: boolean } = {}) {
  const socket = connectTls({ port, host: '127.0.0.1', servername, rejectUnauthorized: false, ...more })
  cleanup.defer(() => void socket.destroy())
  return { socket, ...received(socket) }
}
const sees = (one: { seen(): string }, what: string) => until(() => one.seen() === what, { what: `"${what}"` })

/**
 * Sends bytes to the gateway and keeps the client's side of the connection open. Returns what the gateway sends until
 * it closes the connection.
 */
async function raw(bytes: Buffer): Promise<Buffer> {
  const socket = connect({ port, host: '127.0.0.1' })
  cleanup.defer(() => void socket.destroy())
  socket.on('error', () => undefined).write(bytes)
  const parts: Buffer[] = []
  socket.on('data', (chunk: Buffer) => parts.push(chunk))
  await new Promise(resolve => socket.once('close', resolve))
  return Buffer.concat(parts)
}
/** Returns the ClientHello of Node.js's own TLS client. */
async function clientHello(servername: string): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connectTls({ port: (server.address() as AddressInfo).port, host: '127.0.0.1', servername })
  client.on('error', () => undefined)
  const [socket] = (await once(server, 'connection')) as [Socket]
  const [hello] = (await once(
    socket.on('error', () => undefined),
    'data',
  )) as [Buffer]
  client.destroy()
  server.close()
  return hello
}

it('the gateway decrypts connections and forwards both directions to the service with the server name, ignoring case', async () => {
  await serve(broker, 'broker')
  await serve(other, 'other')
  await sees(dial(other.toUpperCase()), 'other ')
  const { socket } = dial(broker, { allowHalfOpen: true })
  socket.removeAllListeners('data')
  socket.end('hello')
  expect(await text(socket)).toBe('broker hello')
})

it('a slow reader gets a megabyte completely', async () => {
  await serve(broker, 'b')
  const { socket } = dial(broker)
  socket.removeAllListeners('data').pause()
  const sent = Buffer.alloc(1 << 20, 'x')
  socket.end(sent)
  expect((await text(socket)).length).toBe(sent.length + 2)
})

it('handshakes without a server name, with an unknown one, or with one that has no service or no certificate are refused', async () => {
  const { accepted } = await serve(broker, 'broker')
  await serve(bare, 'bare')
  await fixture.publish({ hostname: other, appId: 'web', backends: [{ vmId: 'w', host: '127.0.0.1', port: 1 }] })
  for (const name of ['', 'stranger.example.com', other, bare, `x.${broker}`, 'tls/broker.example.com']) {
    const one = dial(name)
    let isSecure = false
    one.socket.once('secureConnect', () => (isSecure = true))
    await one.closed
    expect([name, one.seen(), isSecure]).toEqual([name, '', false])
  }
  expect(accepted()).toBe(0)
  await sees(dial(broker), 'broker ')
})

it('a client that sends garbage is disconnected at once, and one with an endless handshake after a time limit', async () => {
  const { accepted } = await serve(broker, 'broker')
  const hello = await clientHello(broker)
  for (const bytes of [
    Buffer.from('GET / HTTP/1.1\r\nHost: broker.example.com\r\n\r\n'),
    Buffer.alloc(300_000, 0x16),
    Buffer.from([0x16, 3, 1, 0xff, 0xff, ...Buffer.alloc(100_000)]),
  ]) {
    const atMs = performance.now()
    await raw(bytes)
    expect(performance.now() - atMs).toBeLessThan(handshakeMs)
  }
  for (let at = 1; at < hello.length; at += Math.ceil(hello.length / 7)) {
    const atMs = performance.now()
    await raw(hello.subarray(0, at))
    expect(performance.now() - atMs).toBeGreaterThan(handshakeMs / 2)
  }
  expect(accepted()).toBe(0)
}, 20_000)

it('clients that send a damaged ClientHello are disconnected, without a connection to a VM', async () => {
  const { accepted } = await serve(broker, 'broker')
  const hello = await clientHello(broker)
  const damaged = Array.from({ length: 60 }, (_, n) => {
    const copy = Buffer.from(hello)
    const at = (n * 37) % copy.length
    copy[at] = (copy[at] ?? 0) ^ (1 << (n % 8))
    return copy
  })
  await Promise.all(damaged.map(raw))
  expect(accepted()).toBe(0)
  await sees(dial(broker), 'broker ')
})

it('the gateway agrees to the ALPN protocol if the client offers a single one, and to HTTP/1.1 among several', async () => {
  await serve(broker, 'broker')
  for (const [offered, agreed] of [
    [['postgresql'], 'postgresql'],
    [['h2', 'http/1.1'], 'http/1.1'],
  ] as const) {
    const { socket } = dial(broker, { ALPNProtocols: [...offered] })
    await once(socket, 'secureConnect')
    expect(socket.alpnProtocol).toBe(agreed)
  }
})

it('a connection wakes the app, and is held until the app is awake', async () => {
  await fixture.publish({ hostname: tlsName(broker), appId: 'sleeper', state: 'sleeping' })
  const held = dial(broker)
  held.socket.write('early')
  await until(() => fixture.wakes.includes('sleeper'), { what: 'the wake' })
  expect(held.seen()).toBe('')
  await serve(broker, 'sleeper')
  await sees(held, 'sleeper early')
})

it('removing a service closes only its own connections, and its route cannot be reached as a hostname', async () => {
  await serve(broker, 'broker')
  await serve(other, 'other')
  const [one, two] = [dial(broker), dial(other)]
  await sees(one, 'broker ')
  await sees(two, 'other ')
  await fixture.publish({ hostname: tlsName(broker), state: 'gone' })
  await one.closed
  two.socket.write('still')
  await sees(two, 'other still')
  const answer = await fixture.get('/', { headers: { host: tlsName(other) } })
  expect(answer.status).toBeGreaterThanOrEqual(400)
})

it('open connections are closed when the gateway stops', async () => {
  const second = await gatewayFixture({
    tls: { port: undefined, certificates: dir, redirect: false, hstsSeconds: 0 },
    tcpTls: { port: 0, idleMs: 0, handshakeMs },
  })
  cleanup.use(second)
  const { backend } = cleanup.use(await echoVm('broker'))
  await second.publish({ hostname: tlsName(broker), backends: [backend] })
  const socket = connectTls({ port: second.gateway.tcpTlsPort ?? 0, servername: broker, rejectUnauthorized: false })
  socket.on('error', () => undefined).resume()
  await once(socket, 'data')
  const closed = once(socket, 'close')
  await second.gateway.stop(0)
  await closed
})
