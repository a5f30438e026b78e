import { once } from 'node:events'
import { afterEach, describe, expect, it } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { connectDb } from '../../db/connect.ts'
import { type Db, statement } from '../../db/db.ts'
import { systemClock } from '../../lib/clock.ts'
import { createFixture } from '../../../test/support/api-fixture.ts'
import { healthFeature } from './index.ts'
import { createProbe } from './probe.ts'
import { testDatabase } from '../../../test/support/database.ts'
import { testLog } from '../../../test/support/log.ts'
import { promisedMs } from '../../../test/support/wait.ts'

/** State of the simulated PostgreSQL. `full`: it responds, but accepts no more sessions. */
type Behaviour = 'up' | 'down' | 'hanging' | 'full'

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

/** Creates a health service with a simulated PostgreSQL and the in-process bus. */
function service(state: { postgres: Behaviour; bus: boolean }, cached = false) {
  const real = createMemoryBus()
  const ping = async () => {
    if (!state.bus) throw new Error('no answer')
  }
  const bus = { ...real, connected: () => state.bus, ping }
  const refuse = async () => Promise.reject(new Error('not part of this test'))
  const db: Db = {
    one: async () => {
      if (state.postgres === 'hanging') await new Promise(() => {})
      if (state.postgres === 'down') throw new Error('connection refused')
      // The health probe ignores the result of this query.
      return undefined as never
    },
    rows: refuse,
    maybe: refuse,
    run: refuse,
    tx: refuse,
    listen: refuse,
    whileAnswering: work => work(),
    withLock: refuse,
    async withLockedSession(_name, work) {
      if (state.postgres === 'full') throw new Error('sorry, too many clients already')
      return work(new AbortController().signal)
    },
    close: async () => {},
  }
  let ms = 0
  // Each reading of the clock advances it by two seconds, so that no result comes from the cache.
  const clock = cached ? systemClock : { ...systemClock, monotonicMs: () => (ms += 2_000) }
  const feature = healthFeature({ db, bus, clock }, { streamEveryMs: 5 })
  const { app } = createFixture({ operations: feature.operations, features: [feature] })
  closers.push(
    () => app.close(),
    () => real.close(),
  )
  return { app, probe: createProbe({ db, bus, clock }) }
}

describe('the control plane', () => {
  it('is alive although PostgreSQL and the bus are down', async () => {
    const { app } = service({ postgres: 'down', bus: false })
    const answer = await app.inject({ url: '/v1/health/live' })
    expect([answer.statusCode, answer.headers['content-type'], answer.body]).toEqual([
      200,
      'text/plain; charset=utf-8',
      'ok\n',
    ])
  })

  it.each([
    ['up', true, 200, 'ok', 'ok'],
    ['down', true, 503, 'unavailable', 'ok'],
    ['hanging', true, 503, 'unavailable', 'ok'],
    ['full', true, 503, 'unavailable', 'ok'],
    ['up', false, 503, 'ok', 'unavailable'],
    ['hanging', false, 503, 'unavailable', 'unavailable'],
  ] as const)(
    'with PostgreSQL %s and the bus working: %s, its readiness check responds with %i',
    async (postgres, bus, status, first, second) => {
      const { app } = service({ postgres, bus })
      const started = performance.now()
      const answer = await app.inject({ url: '/v1/health/ready' })
      expect(performance.now() - started).toBeLessThan(promisedMs(2_000))
      expect(answer.statusCode).toBe(status)
      const body = answer.json()
      expect(body).toMatchObject({ services: { postgres: first, bus: second }, version: expect.any(String) })
      if (status === 200) return expect(body.status).toBe('ok')
      expect(body).toMatchObject({ status: 503, code: 'unavailable', error: expect.stringContaining('Not ready') })
      expect(answer.headers['retry-after']).toBe('2')
    },
  )

  it('reports failures in the body of /v1/health, with status 200', async () => {
    const { app } = service({ postgres: 'down', bus: true })
    const answer = await app.inject({ url: '/v1/health' })
    expect([answer.statusCode, answer.json().status]).toEqual([200, 'unavailable'])
  })

  it('queries the database at most once a second', async () => {
    let asked = 0
    const bus = createMemoryBus()
    closers.push(() => bus.close())
    let sessions = 0
    const one = async () => void (asked += 1) as never
    const db = { one, withLockedSession: async () => void (sessions += 1) } as unknown as Db
    const probe = createProbe({ db, bus, clock: systemClock })
    await Promise.all(Array.from({ length: 100 }, () => probe.check()))
    expect([asked, sessions]).toEqual([1, 1])
  })

  it('is not ready while PostgreSQL responds on existing sessions but refuses new ones', async () => {
    await using database = await testDatabase()
    const role = `probe_${process.pid}`
    const name = /\/(test_\w+)\?/.exec(database.url)?.[1] ?? ''
    const admin = (what: string, text: string) => database.db.run(statement(`test.${what}`, text))
    await admin('role', `CREATE ROLE ${role} LOGIN`)
    await using undo = new AsyncDisposableStack()
    undo.defer(async () => void (await admin('drop', `DROP ROLE ${role}`)))
    // Connect with an ordinary role, because PostgreSQL reserves some sessions for superusers.
    const url = database.url.replace('//mote@', `//${role}@`)
    const db = await connectDb({ url, log: testLog(), autocommitConnections: 1 })
    undo.defer(() => db.close())
    const bus = createMemoryBus()
    undo.defer(() => bus.close())
    let ms = 0
    const probe = createProbe({ db, bus, clock: { ...systemClock, monotonicMs: () => (ms += 10_000) } })
    expect(await probe.check()).toEqual({ postgres: true, bus: true })
    await admin('limit', `ALTER DATABASE ${name} CONNECTION LIMIT 0`)
    expect(await probe.check()).toEqual({ postgres: false, bus: true })
    await admin('free', `ALTER DATABASE ${name} CONNECTION LIMIT -1`)
    expect(await probe.check()).toEqual({ postgres: true, bus: true })
  })

  it('streams a snapshot of its health first, and then each change', async () => {
    const state: { postgres: Behaviour; bus: boolean } = { postgres: 'up', bus: true }
    const { app } = service(state)
    const address = await app.listen({ port: 0, host: '127.0.0.1' })
    const gone = new AbortController()
    const response = await fetch(`${address}/v1/health/stream`, { signal: gone.signal })
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    const readUntil = async (what: string) => {
      while (!text.includes(what)) text += (await reader?.read())?.value ?? ''
    }
    await readUntil('event: snapshot')
    await readUntil('"status":"ok"')
    state.bus = false
    await readUntil('event: health')
    await readUntil('"bus":"unavailable"')
    expect(text.match(/^id: \d+$/gm)).toEqual(['id: 1', 'id: 2'])
    const closed = once(gone.signal, 'abort')
    gone.abort()
    await closed
  })
})
