/** Tests raw requests that no HTTP client would send. */
import { once } from 'node:events'
import { METHODS } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFixture } from '../../../test/support/api-fixture.ts'

const fixture = createFixture()
const { app } = fixture
afterAll(() => app.close())

describe('raw requests', () => {
  let port = 0
  beforeAll(async () => {
    port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  })
  /** Sends bytes and returns the first response. */
  const send = async (text: string) => {
    const socket = connect(port, '127.0.0.1')
    socket.write(text)
    const [data] = await once(socket, 'data')
    socket.destroy()
    const [head = '', body = ''] = String(data).split('\r\n\r\n')
    return { status: Number(head.split(' ')[1]), head, body: body === '' ? undefined : JSON.parse(body) }
  }

  it('that are not valid HTTP get an error response', async () => {
    const answer = await send('GET / NOT HTTP\r\n\r\n')
    expect(answer).toMatchObject({ status: 400, body: { status: 400, code: 'invalid_request' } })
  })

  it('with two Host headers get 400 on every kind of path', async () => {
    for (const path of ['/v1/things/x', '/v1/nowhere', '/v1/alive'])
      for (const second of ['a.example', 'b.example'])
        expect(await send(`GET ${path} HTTP/1.1\r\nHost: a.example\r\nhOST: ${second}\r\n\r\n`)).toMatchObject({
          status: 400,
          body: { code: 'invalid_request' },
        })
  })

  // Node itself closes a connection that sends CONNECT.
  const others = METHODS.filter(
    method => !['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT'].includes(method),
  )
  it.each([...others, 'BREW', 'get'])('with the method %s get 405 with Allow, and no error is logged', async method => {
    const before = fixture.lines.length
    for (const extra of ['', 'content-length: 2\r\ncontent-type: text/plain\r\n', 'content-type: nonsense\r\n']) {
      const body = extra.includes('length') ? 'ab' : ''
      const answer = await send(`${method} /v1/things/x HTTP/1.1\r\nHost: a.example\r\n${extra}\r\n${body}`)
      expect(answer).toMatchObject({ status: 405, body: { code: 'method_not_allowed' } })
      expect(answer.head).toMatch(/\r\nallow: [A-Z, ]*GET/i)
    }
    const levels = fixture.lines.slice(before).map(line => (JSON.parse(line) as { level: number }).level)
    expect(levels.filter(level => level >= 40)).toEqual([])
  })
})
