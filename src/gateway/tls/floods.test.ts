/**
 * Tests floods of HTTP/2 frames that are cheap for the client: other clients still get responses, and the gateway's
 * memory stays bounded.
 */
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect as connectHttp2 } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { type TLSSocket, connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GatewayFixture, gatewayFixture, hostname } from '../../../test/support/gateway/gateway.ts'
import { makeCertificate } from '../../../test/support/gateway/tls.ts'

let dir: string
/** All responses share one buffer, because the app runs in this process, whose memory is measured. */
const large = Buffer.alloc(4 << 20)
let fixture: GatewayFixture
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-floods-'))
  await makeCertificate(dir, 'apps', [hostname])
  fixture = await gatewayFixture({ tls: { port: 0, certificates: dir, redirect: true, hstsSeconds: 600 } })
  const app = await fixture.backend((request, response) => {
    request.resume().on('error', () => undefined)
    response.end(request.url === '/large' ? large : 'answered')
  })
  await fixture.publish({ backends: [app] })
})
afterAll(async () => {
  await fixture[Symbol.asyncDispose]()
  await rm(dir, { recursive: true })
})

const dial = () =>
  connectTls({
    port: fixture.gateway.tlsPort ?? 0,
    host: '127.0.0.1',
    servername: hostname,
    ALPNProtocols: ['h2'],
    rejectUnauthorized: false,
  })

/** Encodes a frame (RFC 9113, 4.1). */
function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}
const [DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION] = [0, 1, 2, 3, 4, 6, 8, 9]
const [endStream, endHeaders] = [1, 4]
const text = (value: string) => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)])
/** Encodes an HPACK literal without indexing (RFC 7541, 6.2.2). The index is that of the name in the static table. */
const literal = (index: number, value: string) => Buffer.concat([Buffer.from([index]), text(value)])
const get = (path: string) => Buffer.concat([Buffer.from([0x82, 0x87]), literal(4, path), literal(1, hostname)])
const post = Buffer.concat([Buffer.from([0x83, 0x87]), literal(4, '/'), literal(1, hostname)])
const number = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
const settings = (key: number, value: number) => Buffer.concat([Buffer.from([0, key]), number(value)])
const often = (count: number, make: (n: number) => Buffer) =>
  Buffer.concat(Array.from({ length: count }, (_, n) => make(n)))

interface Flood {
  /** Sent once. */
  readonly first?: Buffer
  /** Returns the frames that the client sends in each round. */
  readonly part: (round: number) => Buffer
  /** Whether the client reads the gateway's responses. */
  readonly reads: boolean
}

/** The floods to test. Each client sends up to 16 MiB in frames of as few bytes as possible. */
const floods: Readonly<Record<string, Flood>> = {
  'endless CONTINUATION': {
    first: frame(HEADERS, 0, 1, get('/')),
    part: () =>
      often(64, n =>
        frame(CONTINUATION, 0, 1, Buffer.concat([Buffer.from([0]), text(`x-${n}`), text('y'.repeat(100))])),
      ),
    reads: true,
  },
  'empty CONTINUATION': {
    first: frame(HEADERS, 0, 1, get('/')),
    part: () => often(1000, () => frame(CONTINUATION, 0, 1)),
    reads: true,
  },
  'SETTINGS whose acknowledgments are not read': {
    part: () => often(1000, n => frame(SETTINGS, 0, 0, settings(4, 65_535 + n))),
    reads: false,
  },
  'PING whose responses are not read': {
    part: () => often(1000, n => frame(PING, 0, 0, Buffer.alloc(8, n))),
    reads: false,
  },
  'empty DATA': {
    first: frame(HEADERS, endHeaders, 1, post),
    part: () => often(1000, () => frame(DATA, 0, 1)),
    reads: true,
  },
  'streams that are reset at once': {
    part: round =>
      often(200, n => {
        const stream = (round * 200 + n) * 2 + 1
        return Buffer.concat([
          frame(HEADERS, endHeaders | endStream, stream, get('/')),
          frame(RST_STREAM, 0, stream, number(8)),
        ])
      }),
    reads: true,
  },
  'PRIORITY of streams that do not exist': {
    part: round => often(500, n => frame(PRIORITY, 0, (round * 500 + n) * 2 + 1, Buffer.from([0, 0, 0, 0, 16]))),
    reads: true,
  },
  'one-byte WINDOW_UPDATE': {
    first: frame(HEADERS, endHeaders, 1, post),
    part: () => often(1000, () => frame(WINDOW_UPDATE, 0, 0, number(1))),
    reads: true,
  },
  'requests for large responses with a zero window': {
    first: frame(SETTINGS, 0, 0, settings(4, 0)),
    part: round =>
      round < 200 ? frame(HEADERS, endHeaders | endStream, round * 2 + 1, get('/large')) : Buffer.alloc(0),
    reads: true,
  },
}
const maxBytes = 16 << 20
const maxRounds = 2_000

async function flood({ first, part, reads }: Flood): Promise<TLSSocket> {
  const socket = dial()
  socket.on('error', () => undefined)
  await once(socket, 'secureConnect')
  if (reads) socket.resume()
  socket.write(
    Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(SETTINGS, 0, 0), first ?? Buffer.alloc(0)]),
  )
  for (let round = 0; socket.bytesWritten < maxBytes && round < maxRounds && !socket.destroyed; round++) {
    const taken = socket.write(part(round))
    // Continue after a while even if the socket does not drain, because the gateway may have stopped reading for good.
    for (let turns = 0; !taken && turns < 1000 && socket.writableNeedDrain && !socket.destroyed; turns++) await turn()
    if (socket.writableLength > 1 << 20) break
  }
  return socket
}

async function ask(): Promise<number> {
  const session = connectHttp2(`https://${hostname}`, { createConnection: dial })
  const stream = session.request({ ':path': '/' })
  const [head] = await once(stream, 'response')
  stream.resume()
  session.destroy()
  return head[':status']
}

const usedMib = () => {
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / (1 << 20)
}

it.each(Object.entries(floods))('a flood of %s does not block others', { timeout: 60_000 }, async (_name, what) => {
  const before = usedMib()
  const flooding = flood(what)
  expect(await ask()).toBe(200)
  const socket = await flooding
  expect(await ask()).toBe(200)
  expect(usedMib() - before).toBeLessThan(100)
  socket.destroy()
})

it('connections with endless headers do not prevent other clients from getting responses', async () => {
  const sockets = Array.from({ length: 100 }, () => {
    const socket = dial()
    socket.on('error', () => undefined).write(`GET / HTTP/1.1\r\nhost: ${hostname}\r\nx: `)
    return socket
  })
  await Promise.all(sockets.map(socket => once(socket, 'secureConnect')))
  expect(await ask()).toBe(200)
  for (const socket of sockets) socket.destroy()
})
