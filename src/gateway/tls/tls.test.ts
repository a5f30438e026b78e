/** Tests HTTPS with real handshakes: certificates, protocols, and WebSockets and gRPC over TLS. */
import { once } from 'node:events'
import { rm, mkdtemp } from 'node:fs/promises'
import {
  type ClientHttp2Session,
  type IncomingHttpHeaders,
  connect as connectHttp2,
  createServer as createHttp2Server,
} from 'node:http2'
import { request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { until } from '../../../test/support/wait.ts'
import { gatewaySubjects } from '../../contract/gateway.ts'
import { type GatewayFixture, gatewayFixture, hostname } from '../../../test/support/gateway/gateway.ts'
import { type TestCertificate, makeCertificate } from '../../../test/support/gateway/tls.ts'

let dir: string
let fixture: GatewayFixture
let tlsPort: number
/** Certificates that control returns, by hostname. */
const kept = new Map<string, TestCertificate>()
let questions: string[] = []
const challenges = new Map<string, string>()

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-tls-'))
  await makeCertificate(dir, 'apps', [hostname, '*.wild.example'])
  const tls = { port: 0, certificates: dir, redirect: true, hstsSeconds: 600 }
  fixture = await gatewayFixture({ tls })
  tlsPort = fixture.gateway.tlsPort ?? 0
  await fixture.bus.serve(gatewaySubjects.certificate, data => {
    const { hostname: name } = data as { hostname: string }
    questions.push(name)
    const found = kept.get(name)
    return { certificate: found ? { ...found, notAfterMs: Date.now() + 1e8 } : null }
  })
  await fixture.bus.serve(gatewaySubjects.challenge, data => {
    const { token } = data as { token: string }
    return { keyAuthorization: challenges.get(token) ?? null }
  })
})
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await rm(dir, { recursive: true })
})
beforeEach(() => {
  questions = []
})

/** Returns the serial number of the certificate presented for a server name; undefined if the handshake failed. */
const shown = (servername: string) =>
  new Promise<string | undefined>(resolve => {
    const socket = connectTls({ port: tlsPort, host: '127.0.0.1', servername, rejectUnauthorized: false })
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate().serialNumber)
      socket.destroy()
    })
    socket.once('error', () => resolve(undefined))
  })
const h2 = async (name = hostname): Promise<ClientHttp2Session> => {
  const session = connectHttp2(`https://${name}`, {
    createConnection: () =>
      connectTls({
        port: tlsPort,
        host: '127.0.0.1',
        servername: name,
        ALPNProtocols: ['h2'],
        rejectUnauthorized: false,
      }),
  })
  await once(session, 'remoteSettings')
  return session
}
async function ask(session: ClientHttp2Session, headers: Record<string, string>, body = '') {
  const stream = session.request(headers, { endStream: body === '' })
  const answered = once(stream, 'response') as Promise<[IncomingHttpHeaders & { ':status'?: number }]>
  let trailers: IncomingHttpHeaders = {}
  stream.once('trailers', got => (trailers = got))
  if (body !== '') stream.end(body)
  const [head] = await answered
  let text = ''
  stream.setEncoding('utf8').on('data', chunk => (text += chunk))
  await once(stream, 'close')
  return { head, text, trailers }
}
const echo = () =>
  fixture.backend((req, res) => {
    let body = ''
    req.on('data', chunk => (body += chunk))
    req.on('end', () => res.setHeader('set-cookie', ['a=1', 'b=2']).end(JSON.stringify({ headers: req.headers, body })))
  })

it('clients get the certificate of the server name from a file, a wildcard or control, and unknown names are refused', async () => {
  const own = await makeCertificate(dir, 'not-in-the-directory.tmp', ['shop.example.com'])
  kept.set('shop.example.com', own)
  await fixture.publish({ hostname: 'shop.example.com', appId: 'shop' })
  const [apps, wild, shop] = [await shown(hostname), await shown('a.wild.example'), await shown('shop.example.com')]
  expect(apps).toBeDefined()
  expect(wild).toBe(apps)
  expect(await shown('a.b.wild.example')).toBeUndefined()
  expect(shop).toBeDefined()
  expect(await shown('stranger.example.com')).toBeUndefined()
  expect(questions, 'only names that are routed are asked for').toEqual(['shop.example.com'])
  await shown('shop.example.com')
  expect(questions).toHaveLength(1)
})

it('a changed certificate file or a renewed certificate is used without a restart', async () => {
  const before = await shown(hostname)
  await makeCertificate(dir, 'apps', [hostname, '*.wild.example'])
  await until(async () => (await shown(hostname)) !== before, { everyMs: 100, what: 'the new file' })
  const shop = await shown('shop.example.com')
  kept.set('shop.example.com', await makeCertificate(dir, 'renewed.tmp', ['shop.example.com']))
  await fixture.bus.publish(gatewaySubjects.certificateChanged, { hostname: 'shop.example.com' })
  await until(async () => (await shown('shop.example.com')) !== shop, { what: 'the renewed certificate' })
})

it('HTTP/1.1 and HTTP/2 are served over TLS, and the app and the browser learn that the request used HTTPS', async () => {
  const app = await echo()
  await fixture.publish({ backends: [app] })
  const [res] = await new Promise<[import('node:http').IncomingMessage]>((resolve, reject) => {
    const options = { port: tlsPort, servername: hostname, rejectUnauthorized: false, headers: { host: hostname } }
    httpsRequest(options, answer => resolve([answer]))
      .on('error', reject)
      .end()
  })
  expect([res.statusCode, res.httpVersion, res.headers['strict-transport-security']]).toEqual([
    200,
    '1.1',
    'max-age=600',
  ])
  res.resume()
  const session = await h2()
  const cookies = ['one=1', 'two=2']
  const { head, text } = await ask(
    session,
    { ':path': '/x?y=1', ':authority': hostname, ':method': 'POST', cookie: cookies.join('; ') },
    'hello',
  )
  expect(head).toMatchObject({
    ':status': 200,
    'strict-transport-security': 'max-age=600',
    'set-cookie': ['a=1', 'b=2'],
  })
  const observed = JSON.parse(text) as { headers: Record<string, string>; body: string }
  expect(observed.body).toBe('hello')
  expect(observed.headers).toMatchObject({ host: hostname, 'x-forwarded-proto': 'https', cookie: 'one=1; two=2' })
  expect(Object.keys(observed.headers).filter(name => name.startsWith(':'))).toEqual([])
  const many = await Promise.all(Array.from({ length: 50 }, () => ask(session, { ':path': '/' })))
  expect(new Set(many.map(one => one.head[':status']))).toEqual(new Set([200]))
  expect((await ask(session, { ':path': '/', ':authority': 'nobody.localhost' })).head[':status']).toBe(404)
  session.close()
})

it('WebSockets are forwarded over HTTP/1.1 and HTTP/2', async () => {
  const app = await fixture.backend(() => {})
  app.server.on('upgrade', (req, socket) => {
    socket.on('error', () => {})
    if (!req.headers['sec-websocket-key'] || req.headers.upgrade !== 'websocket')
      return socket.end('HTTP/1.1 400 Bad\r\n\r\n')
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-protocol: chat\r\n\r\n',
    )
    socket.on('data', (chunk: Buffer) => socket.write(`echo ${chunk.toString()}`))
  })
  await fixture.publish({ backends: [app] })
  const socket = connectTls({ port: tlsPort, host: '127.0.0.1', servername: hostname, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  socket.setEncoding('utf8')
  const head = [
    'GET /ws HTTP/1.1',
    `host: ${hostname}`,
    'upgrade: websocket',
    'connection: Upgrade',
    'sec-websocket-key: AAAA',
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  expect(String((await once(socket, 'data'))[0])).toContain('101')
  socket.write('one')
  expect((await once(socket, 'data'))[0]).toBe('echo one')
  socket.destroy()
  const session = await h2()
  const stream = session.request(
    { ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/ws' },
    { endStream: false },
  )
  const [answer] = await once(stream, 'response')
  expect(answer).toMatchObject({ ':status': 200, 'sec-websocket-protocol': 'chat' })
  stream.setEncoding('utf8').write('two')
  expect((await once(stream, 'data'))[0]).toBe('echo two')
  stream.destroy()
  session.destroy()
})

it('gRPC is forwarded: streams in both directions, trailers, and a trailers-only response', async () => {
  const upstream = createHttp2Server()
  upstream.on('stream', (stream, headers) => {
    if (headers[':path'] === '/none')
      return stream.respond({ ':status': 200, 'grpc-status': '12' }, { endStream: true })
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('data', (chunk: Buffer) => stream.write(`got ${chunk.toString()} `))
    stream.on('end', () => stream.end())
    stream.on('wantTrailers', () =>
      stream.sendTrailers({ 'grpc-status': '0', 'x-proto': headers['x-forwarded-proto'] }),
    )
  })
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const { port } = upstream.address() as AddressInfo
  await fixture.publish({ backends: [{ vmId: 'grpc', host: '127.0.0.1', port }] })
  const session = await h2()
  const headers = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' }
  const stream = session.request({ ...headers, ':path': '/svc/Method' }, { endStream: false })
  stream.setEncoding('utf8').write('one')
  expect((await once(stream, 'data'))[0]).toBe('got one ')
  const trailers = once(stream, 'trailers')
  stream.end('two')
  expect((await once(stream, 'data'))[0]).toBe('got two ')
  expect((await trailers)[0]).toMatchObject({ 'grpc-status': '0', 'x-proto': 'https' })
  const none = await ask(session, { ...headers, ':path': '/none' }, 'x')
  expect(none.head).toMatchObject({ ':status': 200, 'grpc-status': '12' })
  session.destroy()
  upstream.close()
})

it('HTTP is redirected to HTTPS if there is a certificate, but ACME challenges are answered without a redirect', async () => {
  const app = await echo()
  await fixture.publish({ backends: [app] })
  await fixture.publish({ hostname: 'bare.example.com', appId: 'bare', backends: [app] })
  const sent = await fixture.get('/a?b=c')
  expect([sent.status, sent.headers.location]).toEqual([308, `https://${hostname}:${tlsPort}/a?b=c`])
  expect((await fixture.get('/', { headers: { host: 'bare.example.com' } })).status).toBe(200)
  challenges.set('tok-1', 'tok-1.thumb')
  const answer = await fixture.get('/.well-known/acme-challenge/tok-1')
  expect([answer.status, answer.body]).toEqual([200, 'tok-1.thumb'])
  // A challenge that control does not know is forwarded, because the app may respond to it.
  const own = await fixture.get('/.well-known/acme-challenge/other', { headers: { host: 'bare.example.com' } })
  expect(JSON.parse(own.body).headers.host).toBe('bare.example.com')
})

it('a graceful stop lets a pending HTTP/2 stream finish', async () => {
  const held: (() => void)[] = []
  const app = await fixture.backend((_, res) => void held.push(() => res.end('done')))
  const second = await fixture.add()
  await fixture.publish({ backends: [app] })
  const before = tlsPort
  tlsPort = second.tlsPort ?? 0
  const session = await h2()
  tlsPort = before
  const answer = ask(session, { ':path': '/' })
  await until(() => held.length === 1, { what: 'the request is pending' })
  const gone = once(session, 'goaway')
  const stopped = second.stop(5000)
  await gone
  held[0]?.()
  expect((await answer).text).toBe('done')
  await stopped
})
