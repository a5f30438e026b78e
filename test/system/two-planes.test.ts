/** Two control planes on one database and one bus: shared rate limits, revocations and locks. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createMemoryBus } from '../../src/bus/memory.ts'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { type Control, startControl } from '../../src/control/main.ts'
import { connectDb } from '../../src/db/connect.ts'
import { type Db, statement } from '../../src/db/db.ts'
import { api } from '../support/api.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { testLog } from '../support/log.ts'
import { promisedMs, until } from '../support/wait.ts'

const account = { email: 'two@example.com', password: 'quartz-otter-lantern-42' }
const quota = 100

const bus = createMemoryBus()
let database: TestDatabase
let planes: Control[]
/** Each control plane has connections of its own, as in separate processes. */
const connections: Db[] = []
beforeAll(async () => {
  database = await testDatabase()
  const config = parseControlConfig({
    MOTE_SECRET_KEY: 'two-planes-'.repeat(4),
    MOTE_CAPTCHA: 'off',
    MOTE_RATE_TENANT: String(quota),
  })
  const log = testLog()
  const start = async () => {
    const db = await connectDb({ url: database.url, log })
    connections.push(db)
    return startControl({ config, db, bus, log, host: '127.0.0.1', port: 0 })
  }
  planes = [await start(), await start()]
})
afterAll(async () => {
  for (const plane of planes) await plane.stop()
  for (const db of connections) await db.close()
  await bus.close()
  await database.drop()
})

it('two idle control planes open no further database sessions', async () => {
  const runs = async () => (await database.db.one(sweeps)).runs
  // Autocommit connections and pools open their sessions at first use.
  const settled = await until(
    async () => (await database.db.one(sessions)).open > 0 && (await runs()) > 60 && (await runs()),
    {
      timeoutMs: 30_000,
      what: 'the first runs of the sweeps',
    },
  )
  const before = await database.db.one(sessions)
  // The control planes compete for the lock of each sweep. The one that does not relay events tries each second to take
  // the lock of the relay.
  await until(async () => (await runs()) >= settled + 12, {
    timeoutMs: 30_000,
    everyMs: 100,
    what: 'twelve more sweeps',
  })
  const after = await database.db.one(sessions)
  expect(after.open).toBeLessThanOrEqual(before.open + 2)
  expect(after.made).toBeLessThanOrEqual(before.made + 2)
})

const sweeps = statement<{ runs: number }>('test.sweeps', 'SELECT coalesce(sum(runs), 0)::int AS runs FROM sweep_run')

const sessions = statement<{ open: number; made: number }>(
  'test.sessions',
  `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = d.datname) AS open, d.sessions AS made
   FROM pg_stat_database d WHERE d.datname = current_database()`,
)

it('two control planes share rate limits', async () => {
  const [one, two] = planes.map(({ port }) => api(`http://127.0.0.1:${port}`))
  if (!one || !two) throw new Error('BUG: two planes')
  await one.post('/v1/auth/register', { ...account, captcha_id: '', captcha_answer: '' })
  const { token } = (await one.post('/v1/auth/login', account)).body
  const statuses = await Promise.all(Array.from({ length: quota }, () => one.as(token).get('/v1/auth/me')))
  expect(statuses.filter(({ status }) => status === 200).length).toBeGreaterThan(quota - 5)
  const refused = await until(
    async () => {
      const answer = await two.as(token).get('/v1/auth/me')
      return answer.status === 429 && answer
    },
    { timeoutMs: 15_000, everyMs: 100, what: 'the other control plane to learn of the limit' },
  )
  expect(refused.body).toMatchObject({ code: 'rate_limited' })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
})

it('a logout at one control plane ends event streams at the other', async () => {
  const [one, two] = planes.map(({ port }) => `http://127.0.0.1:${port}`)
  const person = { ...account, email: 'other@example.com' }
  await api(one ?? '').post('/v1/auth/register', { ...person, captcha_id: '', captcha_answer: '' })
  const { token, refresh_token } = (await api(one ?? '').post('/v1/auth/login', person)).body
  const stream = await fetch(`${two}/v1/workspace/events`, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(10_000),
  })
  expect(stream.status).toBe(200)
  const began = performance.now()
  expect((await api(one ?? '').post('/v1/auth/logout', { refresh_token })).status).toBe(200)
  await stream.text()
  expect(performance.now() - began).toBeLessThan(promisedMs(1_000))
})
