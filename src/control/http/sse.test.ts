import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { promisedMs, until } from '../../../test/support/wait.ts'
import type { EventStream } from './operation.ts'
import { unauthenticated } from './errors.ts'
import { bearer, createFixture, type FixtureOptions, security } from '../../../test/support/api-fixture.ts'
import { encodeEvent } from './sse.ts'

type Fixture = ReturnType<typeof createFixture>
const open: Fixture[] = []
afterEach(async () => {
  for (const fixture of open.splice(0)) await fixture.app.close()
})

/** Creates a server whose stream handler passes its stream to the test and runs until the stream ends. */
async function serve(options: FixtureOptions = {}) {
  const opened: EventStream[] = []
  const fixture = createFixture({
    ...options,
    handlers: {
      streamThings: {
        stream: async (_call, stream) => {
          opened.push(stream)
          stream.send({ event: 'snapshot', id: '1', data: { after: stream.lastEventId ?? null } })
          if (!stream.signal.aborted) await once(stream.signal, 'abort')
        },
      },
      ...options.handlers,
    },
  })
  open.push(fixture)
  const address = await fixture.app.listen({ port: 0, host: '127.0.0.1' })
  return { ...fixture, address, opened, url: `${address}/v1/things/x/stream` }
}

async function read(response: Response, enough: (text: string) => boolean): Promise<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (reader && !enough(text)) {
    const { done, value } = await reader.read()
    if (done) break
    text += value
  }
  return text
}

describe('an event stream', () => {
  it("begins with the retry time and the right headers, followed by the handler's events", async () => {
    const { url, opened } = await serve()
    const response = await fetch(url, { headers: { ...bearer('ann'), 'last-event-id': '7' } })
    expect(response.status).toBe(200)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.any(String),
    })
    const text = await read(response, got => got.includes('after'))
    expect(text).toBe('retry: 2000\n\nid: 1\nevent: snapshot\ndata: {"after":"7"}\n\n')
    opened[0]?.close()
  })

  it('refuses an event that its operation does not declare, and an event with invalid data', async () => {
    const { url, opened } = await serve()
    const response = await fetch(url, { headers: bearer('ann') })
    await read(response, got => got.includes('after'))
    expect(() => opened[0]?.send({ event: 'other', data: {} })).toThrow(
      'sends the event other, which it does not declare',
    )
    expect(() => opened[0]?.send({ event: 'log', data: 7 })).toThrow(
      'the event log of streamThings is not what it declares',
    )
    expect(() => opened[0]?.send({ event: 'gap', data: { lines: 7 } })).toThrow('the event gap of streamThings')
    opened[0]?.close()
  })

  it('also accepts the last event id as a query parameter', async () => {
    const { url } = await serve()
    const response = await fetch(`${url}?last_event_id=9`, { headers: bearer('ann') })
    expect(await read(response, got => got.includes('after'))).toContain('{"after":"9"}')
  })

  it('can be refused with an ordinary error response before its head is sent', async () => {
    const { app } = createFixture()
    const answer = await app.inject({ url: '/v1/things/none/stream', headers: bearer('ann') })
    expect([answer.statusCode, answer.json().code]).toEqual([404, 'not_found'])
    expect((await app.inject({ url: '/v1/things/x/stream' })).statusCode).toBe(401)
    await app.close()
  })

  it('sends heartbeat comments while there are no events', async () => {
    const { url } = await serve({ streamLimits: { heartbeatMs: 10 } })
    const response = await fetch(url, { headers: bearer('ann') })
    const text = await read(response, got => got.split(': still here').length > 3)
    expect(text).toContain('\n\n: still here\n\n')
  })

  it('ends when the handler is done, even without an event', async () => {
    const { url } = await serve({ handlers: { streamThings: { stream: async () => {} } } })
    const response = await fetch(url, { headers: bearer('ann') })
    expect(await response.text()).toBe('retry: 2000\n\n: the stream is complete\n\n')
  })

  it('aborts the handler when the client disconnects', async () => {
    const { url, opened, lines, streams } = await serve()
    const gone = new AbortController()
    const response = await fetch(url, { headers: bearer('ann'), signal: gone.signal })
    await read(response, got => got.includes('snapshot'))
    expect(streams.count()).toBe(1)
    gone.abort()
    await until(() => opened[0]?.signal.aborted, { what: 'the abort' })
    expect(opened[0]?.send({ event: 'log', data: 'late' })).toBe(false)
    expect(streams.count()).toBe(0)
    await until(() => lines.some(line => line.includes('"operation":"streamThings"')), { what: 'its log line' })
  })

  it('aborts the handler when the client disconnects before the first event', async () => {
    const waiting = Promise.withResolvers<EventStream>()
    const { url, lines, streams } = await serve({
      handlers: {
        streamThings: {
          stream: async (_call, stream) => {
            waiting.resolve(stream)
            await once(stream.signal, 'abort')
          },
        },
      },
    })
    const gone = new AbortController()
    const request = fetch(url, { headers: bearer('ann'), signal: gone.signal })
    const stream = await waiting.promise
    gone.abort()
    await expect(request).rejects.toThrow()
    await until(() => stream.signal.aborted && streams.count() === 0, { what: 'the end' })
    expect(lines.filter(line => line.includes('"level":50'))).toEqual([])
  })

  it('is closed if the client does not read, and until then buffers no more than the limit', async () => {
    const bufferBytes = 64 * 1024
    const { url, opened, streams, lines } = await serve({ streamLimits: { bufferBytes, farewellMs: 50 } })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.pause()
    socket.on('error', () => {})
    const closed = once(socket, 'close')
    socket.write(`GET /v1/things/x/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ann:read\r\n\r\n`)
    const stream = await until(() => opened[0], { what: 'the stream' })
    const line = 'x'.repeat(1024)
    let sent = 0
    // The kernel buffers some megabytes before writes have to wait. Pause between two attempts, so that the event loop
    // can write.
    await until(
      () => {
        for (let i = 0; i < 100; i++) if (stream.send({ event: 'log', data: line })) sent += 1
        return stream.signal.aborted
      },
      { what: 'the cut' },
    )
    expect(sent).toBeGreaterThan(0)
    expect(stream.send({ event: 'log', data: line })).toBe(false)
    await until(() => streams.count() === 0, { what: 'the stream to be removed' })
    // The server has closed the connection, although the client did not read the rest of the stream.
    await until(() => lines.some(entry => entry.includes('"aborted":true')), { what: 'the end of the connection' })
    socket.resume()
    await closed
  })

  it('stays open during a burst larger than the buffer if the client reads', async () => {
    const { url, opened } = await serve({ streamLimits: { bufferBytes: 16 * 1024 } })
    const response = await fetch(url, { headers: bearer('ann') })
    const stream = await until(() => opened[0], { what: 'the stream' })
    for (let i = 0; i < 100; i++) expect(stream.send({ event: 'log', data: 'x'.repeat(1024) })).toBe(true)
    const text = await read(response, got => got.split('event: log').length > 100)
    expect(text).not.toContain('gap')
  })

  it('is closed with a gap event if the client reads too slowly', async () => {
    const { url, opened } = await serve({ streamLimits: { bufferBytes: 16 * 1024 } })
    const response = await fetch(url, { headers: bearer('ann') })
    const stream = await until(() => opened[0], { what: 'the stream' })
    const chunk = 'x'.repeat(1 << 20)
    for (let i = 0; i < 256 && stream.send({ event: 'log', data: chunk }); i++);
    expect(stream.signal.aborted).toBe(true)
    expect(await read(response, () => false)).toMatch(/event: gap\ndata: {"reason":"slow_reader".*}\n\n$/)
  })

  it('is refused with 429 while its user has the maximum number of open streams', async () => {
    const { url, opened } = await serve({ config: { streamsPerUser: 2 } })
    for (let i = 0; i < 2; i++) expect((await fetch(url, { headers: bearer('ann') })).status).toBe(200)
    const third = await fetch(url, { headers: bearer('ann') })
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '5'])
    expect((await fetch(url, { headers: bearer('bob') })).status).toBe(200)
    opened[0]?.close()
    expect((await fetch(url, { headers: bearer('ann') })).status, 'a place is free again').toBe(200)
  })

  it('is closed at once when `endWhere` selects its user', async () => {
    const { url, opened, streams } = await serve()
    const response = await fetch(url, { headers: bearer('ann') })
    await fetch(url, { headers: bearer('bob') })
    streams.endWhere(owner => owner.userId === 'ann', 'signed out')
    expect(await read(response, () => false)).toMatch(/: signed out\n\n$/)
    expect(opened.map(stream => stream.signal.aborted)).toEqual([true, false])
  })

  it('ends with the next heartbeat after the credential is revoked, but not during an outage of PostgreSQL', async () => {
    let answer: 'valid' | 'outage' | 'revoked' = 'valid'
    const { url } = await serve({
      streamLimits: { heartbeatMs: 10 },
      security: {
        ...security,
        authenticateInProject: async (...asked) => {
          if (answer === 'revoked') throw unauthenticated()
          if (answer === 'outage') throw new Error('no database')
          return security.authenticateInProject(...asked)
        },
      },
    })
    const response = await fetch(url, { headers: bearer('ann') })
    answer = 'outage'
    const heartbeats = (text: string) => text.split(': still here').length - 1
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    for (;;) {
      const { done, value = '' } = (await reader?.read()) ?? { done: true }
      text += value
      if (heartbeats(text) > 2) answer = 'revoked'
      if (done) break
    }
    expect(text).toMatch(/: no longer allowed\n\n$/)
  })

  it('ends with a comment when the server stops, without delaying the shutdown', async () => {
    const { url, app } = await serve()
    const response = await fetch(url, { headers: bearer('ann') })
    const started = performance.now()
    const text = read(response, () => false)
    await app.close()
    expect(await text).toMatch(/: the server is restarting\n\n$/)
    expect(performance.now() - started).toBeLessThan(promisedMs(2_000))
  })
})

describe('encodeEvent', () => {
  it.each([
    [{ event: 'log', id: '5', data: { line: 'a\nb' } }, 'id: 5\nevent: log\ndata: {"line":"a\\nb"}\n\n'],
    [{ event: 'log', data: undefined }, 'event: log\ndata: null\n\n'],
    [{ event: 'a\ndata: x', id: '1\n2\0', data: 1 }, 'id: 1 2 \nevent: a data: x\ndata: 1\n\n'],
  ])('encodes %j', (event, text) => expect(encodeEvent(event)).toBe(text))
})
