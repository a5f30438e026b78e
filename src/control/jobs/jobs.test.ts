/**
 * Jobs through the whole control plane, with a real agent and the simulated hypervisor. The test sets the time at which
 * schedules are evaluated.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli } from '../../../test/support/cli.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { testLog } from '../../../test/support/log.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { createFakeHost } from '../../agent/hypervisor/fake/host.ts'
import { statement } from '../../db/db.ts'
import { dueJobs } from './index.ts'

let system: TestSystem
let ann: TestUser
const image = 'docker.io/library/nginx:1.27'

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({}, createFakeHost({ imageMs: 0, bootMs: 0, healthyMs: 10, stopMs: 0, logEveryMs: 0 }))
  ann = await system.user()
  await until(async () => (await ann.post('/v1/deploy', { app_name: 'web', image })).status === 200, { what: 'a host' })
  const isActive = async () => (await ann.get('/v1/apps/web')).body.active_deployment_id !== null
  await until(isActive, { what: 'the deployment' })
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

/** Schedule of all jobs: hourly, so that the control plane itself starts no run during the test. */
const hourly = '0 * * * *'
const put = async (name: string, body: object) => {
  const answer = await ann.call('PUT', `/v1/apps/web/jobs/${name}`, { schedule: hourly, ...body })
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return answer.body
}
const job = async (name: string) => (await ann.get(`/v1/apps/web/jobs/${name}`)).body
const runsOf = async (name: string) => (await ann.get(`/v1/apps/web/runs?job_name=${name}`)).body
const allEnd = (name: string) =>
  until(async () => (await runsOf(name)).every((run: { ended_at: string | null }) => run.ended_at !== null), {
    what: 'the runs to end',
  })
const sweep = (now: Date) =>
  dueJobs({ db: system.database.db, log: testLog() }).run({ now, signal: new AbortController().signal })
/** Runs the sweep at the time at which the job is due next. */
const tick = async (name: string) => {
  const { next_at } = await job(name)
  await sweep(new Date(next_at))
  return next_at as string
}
const end = async (name: string) => {
  await ann.delete(`/v1/apps/web/jobs/${name}`)
  for (const run of await runsOf(name)) await ann.delete(`/v1/apps/web/runs/${run.id}`)
}

describe('a job', { timeout: 60_000 }, () => {
  it('runs once at each time of its schedule, even with several control planes', async () => {
    const made = await put('report', { command: ['sh', '-c', 'echo report'], time_zone: 'Europe/Berlin' })
    expect(made).toMatchObject({ time_zone: 'Europe/Berlin', overlap: 'skip', retries: 0, paused: false, note: null })
    expect(Date.parse(made.next_at)).toBeGreaterThan(Date.now())
    const at = new Date(made.next_at)
    expect(await sweep(new Date(at.getTime() - 1))).toMatchObject({ started: 0 })
    await Promise.all([sweep(at), sweep(at), sweep(at)])
    expect(await runsOf('report')).toMatchObject([
      { purpose: 'job', job_name: 'report', due_at: made.next_at, attempt: 1 },
    ])
    expect((await job('report')).next_at).toBe(new Date(at.getTime() + 3_600_000).toISOString())
    await allEnd('report')
    await tick('report')
    expect(await runsOf('report')).toHaveLength(2)
    await allEnd('report')
    expect(await runsOf('report')).toMatchObject([{ status: 'succeeded' }, { status: 'succeeded' }])
    await end('report')
  })

  it('runs only once if several times of its schedule were missed', async () => {
    await put('late', { command: ['true'] })
    await system.database.db.run(threeHoursAgo, ['late'])
    await sweep(new Date())
    expect(await runsOf('late')).toHaveLength(1)
    expect(Date.parse((await job('late')).next_at)).toBeGreaterThan(Date.now())
    await allEnd('late')
    await end('late')
  })

  it.each([
    ['skip', 1, 'Skipped: the previous run had not ended.'],
    ['allow', 2, null],
    ['replace', 2, null],
  ])('with the overlap policy %s has %i runs if it is due again during its first run', async (overlap, count, note) => {
    await put(overlap, { command: ['sleep', '1000'], overlap })
    await tick(overlap)
    await tick(overlap)
    expect(await runsOf(overlap)).toHaveLength(count)
    expect((await job(overlap)).note).toBe(note)
    if (overlap === 'replace')
      await until(async () => (await runsOf(overlap)).at(-1).status === 'cancelled', { what: 'the first run to end' })
    await end(overlap)
  })

  it('is retried as often as configured when its run fails', async () => {
    await put('flaky', { command: ['sh', '-c', 'exit 1'], retries: 2 })
    const at = new Date(await tick('flaky'))
    for (const attempts of [2, 3]) {
      await allEnd('flaky')
      await sweep(at)
      expect(await runsOf('flaky')).toHaveLength(attempts)
    }
    await allEnd('flaky')
    await sweep(at)
    expect((await runsOf('flaky')).map((run: { attempt: number }) => run.attempt)).toEqual([3, 2, 1])
    await end('flaky')
  })

  it('is not retried while the run for a later time is open', async () => {
    await put('slow', { command: ['sh', '-c', 'exit 1'], retries: 1, overlap: 'replace' })
    await tick('slow')
    await allEnd('slow')
    await put('slow', { command: ['sleep', '1000'], retries: 1, overlap: 'replace' })
    const later = new Date(Date.parse((await job('slow')).next_at) + 3_600_000)
    await system.database.db.run(dueAt, ['slow', later])
    await sweep(later)
    const [newest] = await runsOf('slow')
    expect(newest).toMatchObject({ due_at: later.toISOString(), attempt: 1 })
    await sweep(new Date())
    expect((await runsOf('slow'))[0]).toMatchObject({ id: newest.id })
    expect((await ann.get(`/v1/apps/web/runs/${newest.id}`)).body.status).not.toBe('cancelled')
    await end('slow')
  })

  it('does not run on schedule while it is paused, but can be started by hand', async () => {
    expect(await put('manual', { command: ['true'], paused: true })).toMatchObject({ paused: true, next_at: null })
    expect(await sweep(new Date(Date.now() + 7_200_000))).toMatchObject({ started: 0 })
    const { body } = await ann.post('/v1/apps/web/jobs/manual/run')
    expect(await runsOf('manual')).toMatchObject([{ id: body.run_id, due_at: null }])
    await allEnd('manual')
    expect((await ann.delete('/v1/apps/web/jobs/manual')).status).toBe(200)
    expect((await ann.get(`/v1/apps/web/runs/${body.run_id}`)).body).toMatchObject({
      status: 'succeeded',
      job_name: null,
    })
  })

  it('has a note that gives the reason when no run could be started', async () => {
    await ann.post('/v1/apps', { name: 'empty', git_url: '' })
    await ann.call('PUT', '/v1/apps/empty/jobs/none', { schedule: hourly, command: ['true'] })
    const { next_at } = (await ann.get('/v1/apps/empty/jobs/none')).body
    expect(await sweep(new Date(next_at))).toMatchObject({ skipped: 1 })
    expect((await ann.get('/v1/apps/empty/jobs/none')).body.note).toContain('no active deployment')
  })

  it('is refused if its schedule never matches, or if the schedule, time zone or command is invalid', async () => {
    const refused = async (body: object) =>
      (await ann.call('PUT', '/v1/apps/web/jobs/wrong', { schedule: hourly, command: ['true'], ...body })).status
    expect(await refused({ schedule: '0 0 31 2 *' })).toBe(400)
    expect(await refused({ schedule: '* * * * * *' })).toBe(400)
    expect(await refused({ time_zone: 'Mars/Base' })).toBe(400)
    expect(await refused({ command: [] })).toBe(400)
    expect(await refused({ command: ['a\0'] })).toBe(400)
    expect((await ann.get('/v1/apps/none/jobs')).status).toBe(404)
    expect((await ann.get('/v1/apps/web/jobs/wrong')).status).toBe(404)
  })

  it('can be set, listed, run, paused and deleted with `mote jobs`', async () => {
    await using dir = await testDir()
    const env = { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' }
    const mote = (...args: string[]) => cli({ home: dir.path, env }).run([...args, '--app', 'web'])
    expect(
      await mote(
        'jobs',
        'set',
        'nightly',
        '30 2 * * *',
        '--zone',
        'Europe/Berlin',
        '--retries',
        '1',
        '--exec',
        'sh -c date',
      ),
    ).toMatchObject({
      code: 0,
      out: expect.stringContaining('nightly runs next'),
    })
    expect((await mote('jobs', 'list')).out).toMatch(/nightly +30 2 \* \* \* +Europe\/Berlin/)
    expect(await mote('jobs', 'run', 'nightly')).toMatchObject({ code: 0 })
    expect((await mote('jobs', 'history', 'nightly')).out).toMatch(/by hand/)
    expect(await mote('jobs', 'pause', 'nightly')).toMatchObject({ code: 0 })
    expect((await job('nightly')).paused).toBe(true)
    expect(await mote('jobs', 'resume', 'nightly')).toMatchObject({ code: 0 })
    expect((await job('nightly')).command).toEqual(['sh', '-c', 'date'])
    expect(await mote('jobs', 'delete', 'nightly')).toMatchObject({ code: 0 })
    expect((await ann.get('/v1/apps/web/jobs')).body.map((one: { name: string }) => one.name)).not.toContain('nightly')
  })
})

const threeHoursAgo = statement(
  'test.threeHoursAgo',
  `UPDATE job SET next_at = now() - interval '3 hours' WHERE name = $1`,
)
const dueAt = statement('test.dueAt', `UPDATE job SET next_at = $2 WHERE name = $1`)
