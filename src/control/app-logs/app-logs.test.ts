/** App logs over all deployments of an app, with a real agent and the simulated hypervisor. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { cli } from '../../../test/support/cli.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { createFakeHost } from '../../agent/hypervisor/fake/host.ts'
import { parseControlConfig } from '../base/config.ts'
import { statement } from '../../db/db.ts'
import { spanOf, timeUs } from './range.ts'
import { logRetention } from './sweep.ts'
import { runsAll } from '../../../test/support/all-examples.ts'

const config = parseControlConfig({ MOTE_SECRET_KEY: 'test-'.repeat(8) })
let system: TestSystem
let ann: TestUser
const image = 'docker.io/library/nginx:1.27'
const fake = createFakeHost({ imageMs: 0, bootMs: 0, healthyMs: 20, stopMs: 0, logEveryMs: 0 })
const retained = statement<{ count: number }>('test.vmLogs', `SELECT count(*)::int AS count FROM vm_log`)
const aged = statement('test.agedVmLogs', `UPDATE vm_log SET ended_at = ended_at - interval '8 days'`)

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({ log: { maxBytes: 64 << 20, linesPerSecond: 1e6, bytesPerSecond: 1e9 } }, fake)
  ann = await system.user()
  for (const name of ['web', 'busy']) await ann.post('/v1/apps', { name, git_url: '', drain_timeout: 0 })
  await until(async () => (await ann.post('/v1/deploy', { app_name: 'web', image })).status === 200, { what: 'a host' })
  await running('web', 1)
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

interface Line {
  readonly at: string
  readonly line: string
  readonly source: string
  readonly stream: string
  readonly vm_id: string
  readonly deployment_id: string
}

const deployments = async (app = 'web') => (await ann.get(`/v1/apps/${app}/deployments`)).body
/** Waits until the app has `count` deployments and only the newest one runs, and returns that one. */
const running = (app: string, count: number) =>
  until(
    async () => {
      const all = await deployments(app)
      const isDone = all.length === count && all[0].status === 'running'
      const hasOthers = all.slice(1).some(({ status }: { status: string }) => status !== 'superseded')
      return isDone && !hasOthers && all[0]
    },
    { what: `deployment ${count} of ${app}` },
  )
/** Number of lines of the app `busy`. In `npm test` 20,000, which are twenty pages. */
const total = runsAll ? 100_000 : 20_000
/** Half of the lines, in units of 1,000. */
const half = total / 2000

const vmOf = (app: string) => {
  const vm = [...fake.vms.values()].findLast(({ hostname }) => hostname === app)
  if (!vm) throw new Error('no VM')
  return vm
}
const search = async (query = '', app = 'web') => {
  const { status, body } = await ann.get(`/v1/apps/${app}/logs${query}`)
  expect(status, JSON.stringify(body)).toBe(200)
  return { ...body, texts: body.lines.map(({ line }: Line) => line) }
}

describe('the logs of an app', { timeout: 60_000 }, () => {
  it('are retained after their VM and their deployment are deleted', async () => {
    const first = await running('web', 1)
    vmOf('web').say('stdout', 'Hello of the first')
    expect((await search('?source=app')).texts[0]).toBe('Hello of the first')
    await ann.post('/v1/deploy', { app_name: 'web', image })
    const second = await running('web', 2)
    vmOf('web').say('stderr', 'hello of the second')
    await until(async () => (await search('?source=app&text=hello')).texts.length === 2, { what: 'both lines' })
    expect((await ann.delete(`/v1/apps/web/deployments/${first.job_id}/delete`)).status).toBe(200)
    await until(async () => (await deployments()).length === 1, { what: 'the deletion' })
    const { texts, lines, ...page } = await search('?text=HELLO')
    expect(texts).toEqual(['hello of the second', 'Hello of the first'])
    expect(page).toMatchObject({ retention_days: 7, unavailable_vms: 0, next_cursor: null })
    expect(lines[1]).toMatchObject({ source: 'app', stream: 'stdout', deployment_id: first.id })
    for (const id of [first.id, first.job_id])
      expect((await search(`?deployment=${id}&text=hello`)).texts).toHaveLength(1)
    expect((await search(`?replica=${lines[1].vm_id.slice(-8)}&text=hello`)).texts).toEqual(['Hello of the first'])
    expect((await search('?replica=1&text=hello')).texts).toEqual(['hello of the second'])
    expect((await search('?stream=stderr')).texts).toEqual(['hello of the second'])
    expect((await search('?source=platform')).texts).toContain('healthy')
    expect((await search('?since=1h&until=30m')).texts).toEqual([])
    const ended = await search(`?deployment=${second.id}&text=first`)
    expect(ended.texts).toEqual([])
  })

  it.each([
    ['since=yesterday', 'since'],
    ['since=1x', 'since'],
    ['until=2026-13-40T00:00:00Z', 'until'],
    ['since=1h&until=2h', 'until'],
    ['text=', 'text'],
    [`text=${'x'.repeat(201)}`, 'text'],
    ['replica=nobody', 'replica'],
    ['replica=9', 'replica'],
    ['source=kernel', 'source'],
    ['stream=stdin', 'stream'],
    ['order=random', 'order'],
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['cursor=x', 'cursor'],
    ['cursor=OTk5OTk5OTk5OTk5OTk5OS54eHg_Pz8', 'cursor'],
  ])('cannot be searched with the invalid query %s, and the error names the field', async (query, field) => {
    const { status, body } = await ann.get(`/v1/apps/web/logs?${query}`)
    expect([status, body.code]).toEqual([400, 'invalid_request'])
    expect(body.details[0].field).toContain(field)
  })

  it('get 404 for an unknown deployment and for accounts outside the project', async () => {
    expect((await ann.get('/v1/apps/web/logs?deployment=job-unknown')).status).toBe(404)
    const bob = await system.user()
    for (const path of ['logs', 'logs/download']) {
      expect((await bob.get(`/v1/apps/web/${path}`)).status).toBe(404)
      expect((await bob.get(`/v1/apps/web/${path}`, { 'x-project': ann.project })).status).toBe(404)
      expect((await system.api.get(`/v1/apps/web/${path}`)).status).toBe(401)
    }
  })

  it('can be read page by page without gaps or repeats while many lines arrive and a deployment is replaced', async () => {
    await ann.post('/v1/deploy', { app_name: 'busy', image })
    await running('busy', 1)
    const seen: string[] = []
    let cursor: string | undefined
    const readOn = async () => {
      const next = cursor === undefined ? '' : `&cursor=${cursor}`
      const page = await search(`?order=oldest&limit=1000&text=line%20${next}`, 'busy')
      cursor = page.next_cursor
      seen.push(...page.texts)
      return page.texts.length
    }
    for (let part = 0; part < half; part++) {
      for (let n = 0; n < 1000; n++) vmOf('busy').say('stdout', `line ${part * 1000 + n}`)
      if (part % 10 === 9) await readOn()
    }
    await ann.post('/v1/deploy', { app_name: 'busy', image })
    await running('busy', 2)
    for (let part = half; part < 2 * half; part++) {
      for (let n = 0; n < 1000; n++) vmOf('busy').say('stdout', `line ${part * 1000 + n}`)
      if (part % 10 === 9) await readOn()
    }
    await until(async () => (await readOn()) === 0 && seen.length >= total, { what: 'all lines', timeoutMs: 40_000 })
    expect(seen).toHaveLength(total)
    expect(seen.every((line, n) => line === `line ${n}`)).toBe(true)
    const newest = await search('?limit=3&text=line%20', 'busy')
    expect(newest.texts).toEqual([`line ${total - 1}`, `line ${total - 2}`, `line ${total - 3}`])
    const older = await search(`?limit=2&text=line%20&cursor=${newest.next_cursor}`, 'busy')
    expect(older.texts).toEqual([`line ${total - 4}`, `line ${total - 5}`])
    const back = await search(`?limit=3&text=line%20&order=oldest&cursor=${older.prev_cursor}`, 'busy')
    expect(back.texts).toEqual([`line ${total - 3}`, `line ${total - 2}`, `line ${total - 1}`])
    expect((await search('?text=LINE%2012345', 'busy')).texts).toEqual(['line 12345'])
  }, 120_000)

  it('can be downloaded as text or as JSON lines', async () => {
    const text = await ann.get('/v1/apps/busy/logs/download?text=line%20')
    const lines = text.body.trimEnd().split('\n')
    expect(lines).toHaveLength(total)
    expect(lines[0]).toMatch(/^\d{4}-.*Z [0-9a-f-]{36} stdout line 0$/)
    expect(text.headers.get('content-disposition')).toContain('busy.log')
    const json = await ann.get(`/v1/apps/busy/logs/download?format=jsonl&text=line%20${total - 1}`)
    expect(JSON.parse(json.body)).toMatchObject({ line: `line ${total - 1}`, source: 'app' })
    expect((await ann.get('/v1/apps/busy/logs/download?since=x')).status).toBe(400)
  })

  it('can be followed across a new deployment, with a filter', async () => {
    const stop = new AbortController()
    const seen: string[] = []
    const path = '/v1/apps/web/logs/stream?text=follow&source=app'
    const reading = (async () => {
      for await (const { event, data } of ann.events(path, stop.signal)) {
        if (event === 'snapshot') vmOf('web').say('stdout', 'FOLLOW 1')
        if (event === 'log') seen.push(data.line)
      }
    })().catch(() => undefined)
    await until(() => seen.length === 1, { what: 'the first line' })
    await ann.post('/v1/deploy', { app_name: 'web', image })
    await running('web', 2)
    vmOf('web').say('stdout', 'something else')
    vmOf('web').say('stdout', 'follow 2')
    await until(() => seen.length === 2, { what: 'the second line' })
    expect(seen).toEqual(['FOLLOW 1', 'follow 2'])
    stop.abort()
    await reading
  })

  it('are shown by the CLI', async () => {
    await using home = await testDir()
    const mote = cli({
      home: home.path,
      env: { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' },
    })
    const { out, code } = await mote.run(['logs', 'web', '--grep', 'hello', '--source', 'app', '-n', '1'])
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [0-9a-f]{6} hello of the second\n$/),
    ])
    const none = await mote.run(['logs', '--app', 'web', '--grep', 'nothing like this'])
    expect(none).toMatchObject({ code: 0, out: '', err: expect.stringContaining('older than 7 days are removed') })
    const wrong = await mote.run(['logs', 'web', '--since', 'tomorrow'])
    expect(wrong).toMatchObject({ code: 1, err: expect.stringContaining('since: ') })
    const followed = await mote.run(['logs', 'web', '-f', '--grep', 'hello', '--json'], { interruptAt: /second/ })
    expect(followed).toMatchObject({ code: 130, out: expect.stringContaining('"line":"Hello of the first"') })
  })

  it('are removed from the hosts when their app is deleted, and the sweep deletes the records of expired logs', async () => {
    const sweep = () =>
      logRetention({ db: system.database.db, bus: system.bus, config }).run({
        now: new Date(),
        signal: new AbortController().signal,
      })
    expect((await ann.delete('/v1/apps/busy')).status).toBe(200)
    await until(async () => Number((await sweep()).forgotten) > 0, { what: 'the removal' })
    const { count } = await system.database.db.one(retained, [])
    expect(count).toBeGreaterThan(0)
    expect(await sweep()).toEqual({ forgotten: 0, expired: 0, unreachable: 0 })
    await system.database.db.run(aged, [])
    expect(await sweep()).toEqual({ forgotten: 0, expired: count, unreachable: 0 })
  })
})

describe('the time span of a log search', () => {
  const now = new Date('2026-03-14T12:00:00Z')
  it('can be given as RFC 3339 times, with microseconds, or as durations', () => {
    expect(timeUs('since', '2026-03-14T11:00:00.123456Z', now)).toBe(
      Date.parse('2026-03-14T11:00:00.123Z') * 1000 + 456,
    )
    expect(timeUs('since', '2026-03-14T12:00:00+02:00', now)).toBe(Date.parse('2026-03-14T10:00:00Z') * 1000)
    for (const [value, seconds] of [
      ['90s', 90],
      ['2m', 120],
      ['1h', 3600],
      ['1d', 86_400],
      ['1w', 604_800],
    ] as const)
      expect(timeUs('since', value, now)).toBe((now.getTime() - seconds * 1000) * 1000)
  })
  it('never starts before the retention period of logs', () => {
    expect(spanOf({ since: '30d' }, 3_600_000, now).afterUs).toBe((now.getTime() - 3_600_000) * 1000)
  })
})
