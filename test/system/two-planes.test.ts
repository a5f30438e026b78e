/** Two control planes on one database and one bus: shared rate limits, revocations and locks. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createMemoryBus } from '../../src/bus/memory.ts'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { type Control, startControl } from '../../src/control/main.ts'
import { statement } from '../../src/db/db.ts'
import { api } from '../support/api.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { testLog } from '../support/log.ts'
import { promisedMs, until } from '../support/wait.ts'

const account = { email: 'two@example.com', password: 'quartz-otter-lantern-42' }
const quota = 100

const bus = createMemoryBus()
let database: TestDatabase
let planes: Control[]
beforeAll(async () => {
  database = await testDatabase()
  const config = parseControlConfig({
    MOTE_SECRET_KEY: 'two-planes-'.repeat(4),
    MOTE_CAPTCHA: 'off',
    MOTE_RATE_TENANT: String(quota),
  })
  const log = testLog()
  const start = () => startControl({ config, db: database.db, bus, log, host: '127.0.0.1', port: 0 })
  planes = [await start(), await start()]
})
afterAll(async () => {
  for (const plane of planes) await plane.stop()
  await bus.close()
  await database.drop()
})

it('two idle control planes open as many database sessions as they close', async () => {
  const open = async () => (await database.db.one(sessions)).open
  const before = await until(open, { what: 'the sessions of both planes' })
  const { made } = await database.db.one(sessions)
  // The control plane that does not hold the lock of the event relay opens a session each second to try to take it.
  const hasTried = async () => (await database.db.one(sessions)).made >= made + 6
  await until(hasTried, { timeoutMs: 30_000, everyMs: 100, what: 'six more sessions' })
  await until(async () => (await open()) <= before, { timeoutMs: 5_000, what: `${before} open sessions or fewer` })
})

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
