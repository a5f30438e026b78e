/**
 * Tests request smuggling: requests that proxy and app might parse differently. Nothing that follows such a request may
 * reach an app as a separate request.
 */
import { connect } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type GatewayFixture, gatewayFixture, hostname } from '../../test/support/gateway/gateway.ts'

const victim = 'victim.localhost'
let fixture: GatewayFixture
/** App and path of the requests that reached an app. */
let reached: string[] = []
beforeAll(async () => {
  fixture = await gatewayFixture()
  for (const name of [hostname, victim]) {
    const app = await fixture.backend((request, response) => {
      reached.push(`${name} ${request.url}`)
      request.resume().once('end', () => response.end('answered'))
      request.on('error', () => undefined)
    })
    await fixture.publish({ hostname: name, appId: name, backends: [app] })
    expect(await send(`GET /live HTTP/1.1\r\nhost: ${name}\r\n\r\n`)).toContain('answered')
  }
})
afterAll(() => fixture[Symbol.asyncDispose]())
beforeEach(() => {
  reached = []
})

/**
 * Sends a text, followed by a last request with `connection: close`. Returns everything that the gateway sent until it
 * closed the connection.
 */
function send(text: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const last = `GET /last HTTP/1.1\r\nhost: ${hostname}\r\nconnection: close\r\n\r\n`
  let answered = ''
  const socket = connect(fixture.gateway.port, '127.0.0.1')
  socket
    .setEncoding('latin1')
    .once('data', () => socket.write(last))
    .on('data', (part: string) => (answered += part))
    .on('error', () => undefined)
    .once('close', () => resolve(answered))
  // If the gateway waits for more of the request, it has neither misread nor refused the request: give up.
  socket.setTimeout(5_000, () => socket.destroy())
  socket.write(text, 'latin1')
  return promise
}

const hidden = `GET /smuggled HTTP/1.1\r\nhost: ${victim}\r\n\r\n`
const post = (headers: string, body: string) => `POST /first HTTP/1.1\r\nhost: ${hostname}\r\n${headers}\r\n${body}`
const chunked = `0\r\n\r\n${hidden}`
const length = `content-length: ${chunked.length}\r\n`
const te = 'transfer-encoding: chunked\r\n'

/** Requests with two possible ends of the body. With one of them, the remaining bytes are another request. */
const bodies: Readonly<Record<string, string>> = {
  'length before chunked': post(length + te, chunked),
  'chunked before length': post(te + length, chunked),
  'a space before the colon': post(`transfer-encoding : chunked\r\n${length}`, chunked),
  'chunked after a vertical tab': post(`transfer-encoding:\u000bchunked\r\n${length}`, chunked),
  'an unknown coding': post(`transfer-encoding: xchunked\r\n${length}`, chunked),
  'chunked is not the last coding': post(`transfer-encoding: chunked, identity\r\n${length}`, chunked),
  'two codings': post(`${te}transfer-encoding: identity\r\n${length}`, chunked),
  'a coding in quotes': post(`transfer-encoding: "chunked"\r\n${length}`, chunked),
  'a folded coding': post(`transfer-encoding:\r\n chunked\r\n${length}`, chunked),
  'two lengths': post(`content-length: 0\r\n${length}`, chunked),
  'two lengths in one line': post(`content-length: 0, ${chunked.length}\r\n`, chunked),
  'a length with a sign': post('content-length: +0\r\n', hidden),
  'a negative length': post('content-length: -1\r\n', hidden),
  'a hexadecimal length': post('content-length: 0x0\r\n', hidden),
  'an empty length': post('content-length:\r\n', hidden),
  'a length beyond 64 bits': post('content-length: 18446744073709551616\r\n', hidden),
  'a chunk size with a sign': post(te, `+0\r\n\r\n${hidden}`),
  'a hexadecimal prefix of a chunk size': post(te, `0x0\r\n\r\n${hidden}`),
  'a chunk size beyond 64 bits': post(te, `10000000000000000\r\n\r\n${hidden}`),
  'a chunk that is longer than its size': post(te, `1\r\nab\r\n${chunked}`),
  'a bare line feed after a header': `POST /first HTTP/1.1\r\nhost: ${hostname}\r\nx: y\ntransfer-encoding: chunked\r\n${length}\r\n${chunked}`,
  'a carriage return in a header': post(`x: y\rtransfer-encoding: chunked\r\n${length}`, chunked),
  'a zero byte in a header': post(`x: y\0\r\n${length}${te}`, chunked),
  'a header name with a space': post(`transfer encoding: chunked\r\n${length}`, chunked),
}

it('after an unambiguous request, the next one reaches an app (which shows that the following tests can fail)', async () => {
  await send(post('content-length: 0\r\n', hidden))
  expect(reached).toContain(`${victim} /smuggled`)
})

it.each(Object.entries(bodies))('ambiguous body (%s): refused, and the rest reaches no app', async (_name, text) => {
  const answer = await send(text)
  expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /)
  expect(reached.filter(one => one.includes('smuggled'))).toEqual([])
})

/** Requests that name two hosts. */
const hosts: Readonly<Record<string, string>> = {
  'two hosts': `GET / HTTP/1.1\r\nhost: ${hostname}\r\nhost: ${victim}\r\n\r\n`,
  'no host': 'GET / HTTP/1.1\r\n\r\n',
  'an address with another host': `GET http://${victim}/ HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`,
  'a user before the host': `GET / HTTP/1.1\r\nhost: ${hostname}@${victim}\r\n\r\n`,
  'two hosts in one line': `GET / HTTP/1.1\r\nhost: ${hostname}, ${victim}\r\n\r\n`,
  'a path after the host': `GET / HTTP/1.1\r\nhost: ${hostname}/${victim}\r\n\r\n`,
  'a folded host': `GET / HTTP/1.1\r\nhost: ${hostname}\r\n ${victim}\r\n\r\n`,
  'a host after a space': `GET / HTTP/1.1\r\nhost : ${victim}\r\nhost: ${hostname}\r\n\r\n`,
}

it.each(Object.entries(hosts))('ambiguous host (%s): refused, and nothing reaches an app', async (_name, text) => {
  expect(await send(text)).toMatch(/^HTTP\/1\.1 4\d\d /)
  expect(reached.filter(one => !one.endsWith('/last'))).toEqual([])
})
