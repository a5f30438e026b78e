/**
 * Faults that recover by themselves are not logged as errors, so that operators can be alerted on error lines.
 */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { BusError } from '../../src/bus/bus.ts'
import { createMemoryBus } from '../../src/bus/memory.ts'
import { statement } from '../../src/db/db.ts'
import { DbUnavailable } from '../../src/db/errors.ts'
import { createSweeper } from '../../src/engine/sweeper.ts'
import { type TestSystem, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

interface Line {
  readonly level: number
  readonly msg: string
}
const lines: Line[] = []
const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
const said = (text: string) =>
  until(() => lines.some(({ msg }) => msg.includes(text)), { what: `"${text}" in the log` })
const errors = () => lines.filter(({ level }) => level >= log.levels.values['error']!)

let system: TestSystem
beforeAll(async () => {
  system = await testSystem({ log, agents: 0, config: { hostTimeoutSeconds: 1 } })
})
afterAll(() => system[Symbol.asyncDispose]())

it('the loss of all database sessions is not logged as an error', async () => {
  const { db } = system.database
  const runner = async () => (await db.maybe(runnerSession))?.pid
  const before = await runner()
  expect((await db.one(endSessions)).ended).toBeGreaterThan(3)
  const isBack = async () => ![before, undefined].includes(await runner())
  await until(isBack, { what: 'a new session with the runner lock' })
  await until(async () => (await system.api.get('/v1/health/ready')).status === 200, { what: 'readiness' })
  expect(errors()).toEqual([])
})

const endSessions = statement<{ ended: number }>(
  'test.endSessions',
  `SELECT count(pg_terminate_backend(pid)) AS ended FROM pg_stat_activity
   WHERE datname = current_database() AND pid <> pg_backend_pid()`,
)
const runnerSession = statement<{ pid: number }>(
  'test.runnerSession',
  `SELECT pid FROM pg_stat_activity
   WHERE datname = current_database() AND starts_with(application_name, 'mote-lock runner')`,
)

it('a lost host, and the alert about it, are not logged as errors', async () => {
  const host = await system.addAgent()
  const known = statement('test.hosts', 'SELECT id FROM host')
  await until(async () => (await system.database.db.rows(known)).length > 0, { what: 'the host' })
  await host.stop()
  await said('a host is lost')
  await said('a workflow is overdue')
  expect(errors()).toEqual([])
})

it.each([
  ['an outage', new DbUnavailable('connect', 'no database'), 'warn'],
  ['a host that does not answer', new BusError('timeout', 'no answer'), 'warn'],
  ['a refusal', new BusError('remote', 'no'), 'error'],
  ['a bug', new TypeError('no'), 'error'],
] as const)(
  'a sweep and a bus handler that fail because of %s are logged at the right level',
  async (_what, failure, level) => {
    lines.length = 0
    const sweep = { name: `fails-${level}`, everyMs: 0, run: () => Promise.reject(failure) }
    await createSweeper({ db: system.database.db, sweeps: [sweep], log }).runDue(sweep.name)
    const bus = createMemoryBus({ log })
    await bus.subscribe('test', () => Promise.reject(failure))
    await bus.publish('test', 1)
    await said('a bus handler failed')
    await bus.close()
    const ours = lines.filter(({ msg }) => /a sweep failed|a bus handler failed/.test(msg))
    expect(ours.map(line => line.level)).toEqual([log.levels.values[level], log.levels.values[level]])
  },
)
