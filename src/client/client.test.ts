import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { ApiFailure, type Client, type ClientOptions, createClient, everyItem } from './index.ts'

interface Observed {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
}
type Answer = (request: Observed, response: ServerResponse) => void

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** Starts a server that sends the n-th response to the n-th request, and the last response to all later ones. */
async function serverWith(answers: readonly Answer[], options: Partial<ClientOptions> = {}) {
  const observed: Observed[] = []
  const server = createServer((request, response) => {
    const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers }
    observed.push(one)
    answers[Math.min(observed.length, answers.length) - 1]?.(one, response)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const client: Client = createClient({ baseUrl: `http://127.0.0.1:${port}`, token: () => 'first', ...options })
  return { client, observed }
}

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (_request, response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
const hangUp: Answer = (_request, response) => response.socket?.destroy()

describe('calls', () => {
  it('put path, query, project and credential where the contract declares them', async () => {
    const { client, observed } = await serverWith([json(200, [])])
    await client.listDeployments({ app_name: 'a/b', query: { limit: 3 } }, { project: 'shop' })
    expect(observed[0]).toMatchObject({ method: 'GET', url: '/v1/apps/a%2Fb/deployments?limit=3' })
    expect(observed[0]?.headers).toMatchObject({ authorization: 'Bearer first', 'x-project': 'shop' })
  })

  it('send no credential and no project if the operation needs none', async () => {
    const { client, observed } = await serverWith([json(200, {})], { project: () => 'shop' })
    await client.getHealth()
    expect(observed[0]?.headers.authorization).toBeUndefined()
    expect(observed[0]?.headers['x-project']).toBeUndefined()
  })

  it('fail with an ApiFailure that lists the invalid fields', async () => {
    const details = [{ field: 'name', message: 'already taken' }]
    const { client } = await serverWith([json(409, { error: 'Taken.', status: 409, code: 'name_taken', details })])
    const failure = await client.createProject({ body: { name: 'x' } }).catch((cause: unknown) => cause)
    expect(failure).toBeInstanceOf(ApiFailure)
    expect(failure).toMatchObject({ status: 409, code: 'name_taken', details, message: 'Taken.' })
  })

  it('fail with the status if the response does not come from the API', async () => {
    const { client } = await serverWith([(_, response) => response.writeHead(404).end('<html>no</html>')])
    await expect(client.getMe()).rejects.toMatchObject({ status: 404, code: undefined })
  })
})

describe('a client', () => {
  it('retries a POST with the same idempotency key after a lost connection', async () => {
    const { client, observed } = await serverWith([hangUp, json(503, {}), json(200, { id: '1' })])
    await client.createProject({ body: { name: 'x' } })
    expect(observed).toHaveLength(3)
    const keys = new Set(observed.map(one => one.headers['idempotency-key']))
    expect([...keys]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/)])
  })

  it.each([
    ['DELETE', (client: Client) => client.deleteApp({ app_name: 'x' })],
    ['PATCH', (client: Client) => client.updateApp({ app_name: 'x', body: { port: 80 } })],
  ])('retries a %s with the same idempotency key after a lost connection', async (_what, send) => {
    const { client, observed } = await serverWith([hangUp, json(200, { status: 'done' })])
    await send(client)
    const keys = new Set(observed.map(one => one.headers['idempotency-key']))
    expect([observed.length, ...keys]).toEqual([2, expect.stringMatching(/^[0-9a-f]{32}$/)])
  })

  it('does not retry a sign-in after a lost connection', async () => {
    const { client, observed } = await serverWith([hangUp])
    await expect(client.login({ body: { email: 'a@b.c', password: 'x' } })).rejects.toThrow(TypeError)
    expect(observed).toHaveLength(1)
  })

  it('waits for the time in the Retry-After of a 429, then retries even a DELETE', async () => {
    const { client, observed } = await serverWith([
      json(429, {}, { 'retry-after': '1' }),
      json(200, { status: 'deleted' }),
    ])
    const startedMs = performance.now()
    await client.deleteApp({ app_name: 'x' })
    expect(performance.now() - startedMs).toBeGreaterThan(950)
    expect(observed).toHaveLength(2)
  })

  it('gives up after two retries, and does not retry a request refused with 400', async () => {
    const down = await serverWith([json(503, { error: 'down' })])
    await expect(down.client.getMe()).rejects.toMatchObject({ status: 503 })
    expect(down.observed).toHaveLength(3)
    const refused = await serverWith([json(400, {})])
    await expect(refused.client.getMe()).rejects.toMatchObject({ status: 400 })
    expect(refused.observed).toHaveLength(1)
  })

  it('renews a refused credential once and repeats the request', async () => {
    let token = 'first'
    const { client, observed } = await serverWith([json(401, {}), json(200, { id: '1' })], {
      token: () => token,
      renew: async refused => {
        expect(refused).toBe('first')
        token = 'second'
        return true
      },
    })
    await client.getMe()
    expect(observed.map(one => one.headers.authorization)).toEqual(['Bearer first', 'Bearer second'])
  })
})

describe('streams', () => {
  const head = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' })

  it('parse events that are split between chunks, with any line endings, and skip comments', async () => {
    const { client } = await serverWith([
      (_, response) => {
        head(response).write('retry: 10\n\n: hello\n\nid: 7\r\nevent: log\r\ndata: {"line":"gr')
        response.write('üß"}\r\n\r\nevent: log\ndata: "a\\nb"\n\ndata:no json\n\n')
      },
    ])
    const events = []
    for await (const event of client.streamAppLogs({ app_name: 'x' })) {
      events.push(event)
      if (events.length === 3) break
    }
    expect(events).toEqual([
      { event: 'log', id: '7', data: { line: 'grüß' } },
      { event: 'log', id: undefined, data: 'a\nb' },
      { event: 'message', id: undefined, data: 'no json' },
    ])
  })

  it('resume after a lost connection', async () => {
    const cut: Answer = (_, response) => void head(response).end('retry: 1\n\nid: 41\nevent: log\ndata: 1\n\n')
    const { client, observed } = await serverWith([cut, hangUp, json(503, {}), cut])
    const states: string[] = []
    let count = 0
    for await (const _ of client.streamAppLogs({ app_name: 'x' }, { onState: state => states.push(state) }))
      if (++count === 2) break
    expect(observed.map(one => one.headers['last-event-id'])).toEqual([undefined, '41', '41', '41'])
    expect(states).toEqual(['open', 'waiting', 'waiting', 'waiting', 'open'])
  })

  it('throw if the server refuses permanently, and end without an error on abort', async () => {
    const { client } = await serverWith([json(501, {})])
    await expect(client.streamMesh().next()).rejects.toMatchObject({ status: 501 })
    const stop = new AbortController()
    const endless = await serverWith([(_, response) => void head(response).write('data: 1\n\n')])
    for await (const _ of endless.client.streamMesh({ signal: stop.signal })) stop.abort()
  })
})

describe('pages', () => {
  it('are fetched one after the other until one is not full', async () => {
    const { client, observed } = await serverWith([json(200, [1, 2]), json(200, [3])])
    const items = []
    for await (const item of everyItem(query => client.listApps({ query }), 2)) items.push(item)
    expect(items).toEqual([1, 2, 3])
    expect(observed.map(one => one.url)).toEqual(['/v1/apps?limit=2&offset=0', '/v1/apps?limit=2&offset=2'])
  })
})
