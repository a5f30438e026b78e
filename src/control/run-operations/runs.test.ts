/** Tests runs and release commands with the whole control plane, a real agent and the simulated hypervisor. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli } from '../../../test/support/cli.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'
import { createFakeHost } from '../../agent/hypervisor/fake/host.ts'
import { statement } from '../../db/db.ts'
import { runRetention } from '../runs/index.ts'

let system: TestSystem
let ann: TestUser
let job: string
const image = 'docker.io/library/nginx:1.27'
const fake = createFakeHost({ imageMs: 0, bootMs: 0, healthyMs: 20, stopMs: 0, logEveryMs: 0 })

beforeAll(async () => {
  system = await testSystem({ agents: 0 })
  await system.addAgent({}, fake)
  ann = await system.user()
  await until(async () => (await ann.post('/v1/deploy', { app_name: 'web', image })).status === 200, { what: 'a host' })
  job = (await latest('running')).job_id
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

/** Waits until the app's newest deployment has the status, and returns the deployment. */
const latest = (status: string, app = 'web') =>
  until(
    async () => {
      const [newest] = (await ann.get(`/v1/apps/${app}/deployments`)).body
      return newest?.status === status && newest
    },
    { what: `the newest deployment to be ${status}` },
  )
const start = async (body: object, app = 'web') => {
  const answer = await ann.post(`/v1/apps/${app}/runs`, body)
  expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  return answer.body
}
const read = async (id: string, app = 'web') => (await ann.get(`/v1/apps/${app}/runs/${id}`)).body
const ended = (id: string, app = 'web') =>
  until(async () => (await read(id, app)).ended_at !== null && read(id, app), {
    what: 'the end of the run',
  })
const deploy = (app = 'web') => ann.post('/v1/deploy', { app_name: app, image })

describe('a run', { timeout: 60_000 }, () => {
  it('runs a command in a separate VM, keeps its output and exit code, and removes the VM', async () => {
    const run = await start({ command: ['sh', '-c', 'echo hello'] })
    expect(run).toMatchObject({ status: 'pending', purpose: 'command', job_id: job, started_by: expect.any(String) })
    const end = await ended(run.id)
    expect(end).toMatchObject({ status: 'succeeded', exit_code: 0, error: null, vm_id: null })
    expect((await ann.get(`/v1/apps/web/runs/${run.id}/log`)).body.text).toContain('echo hello')
    expect([...fake.vms.values()].filter(vm => vm.hostname === 'web')).toHaveLength(1)
  })

  it('that fails shows the exit code and the last lines of its output', async () => {
    const run = await start({ command: ['sh', '-c', 'no such table; exit 3'] })
    expect(await ended(run.id)).toMatchObject({
      status: 'failed',
      exit_code: 3,
      error: expect.stringMatching(/^The program exited with code 3\. Last lines:\n.*no such table/),
    })
  })

  it('gets no requests from gateways, does not count as a replica, and does not change the deployment', async () => {
    const before = (await ann.get(`/v1/apps/web/deployments/${job}`)).body
    const run = await start({ command: ['sleep', '1000'] })
    await until(async () => (await read(run.id)).status === 'running', { what: 'the run' })
    const after = (await ann.get(`/v1/apps/web/deployments/${job}`)).body
    expect(after).toMatchObject({ status: 'running', vm_id: before.vm_id })
    const { backends } = await system.database.db.one(routeOf, ['web'])
    expect(backends).toHaveLength(1)
    expect((await ann.delete(`/v1/apps/web/runs/${run.id}`)).body).toEqual({ status: 'cancelling' })
    expect(await ended(run.id)).toMatchObject({ status: 'cancelled', exit_code: null })
  })

  it('ends when its time limit is exceeded', async () => {
    const run = await start({ command: ['sleep', '1000'], timeout_seconds: 1 })
    expect(await ended(run.id)).toMatchObject({ status: 'timed_out', error: 'The program ran longer than 1 s.' })
  })

  it('without a command waits for sessions; `mote run` opens a session with its command', async () => {
    await using dir = await testDir()
    const env = { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' }
    const mote = (...args: string[]) => cli({ home: dir.path, env }).run(args)
    expect(await mote('run', '--app', 'web', '--', 'echo', 'a', 'b c')).toMatchObject({ code: 0, out: 'a b c\n' })
    expect(await mote('run', '--app', 'web', '--', 'sh', '-c', 'exit 9')).toMatchObject({ code: 9 })
    const detached = await mote('run', '--detach', '--app', 'web', '--', 'sh', '-c', 'echo later')
    const id = detached.out.trim()
    await ended(id)
    expect((await mote('runs', 'log', id, '--app', 'web')).out).toContain('echo later')
    expect((await mote('runs', 'list', '--app', 'web')).out).toMatch(/succeeded/)
    const all = async (): Promise<
      { command: unknown; status: string; exit_code: number | null; ended_at: unknown }[]
    > => (await ann.get('/v1/apps/web/runs')).body
    await until(async () => (await all()).every(run => run.ended_at), { what: 'all runs to end' })
    // The client cancels the run after its session has ended, to remove the VM. The run must still count as finished.
    const attended = (await all()).filter(run => run.command === null).slice(0, 2)
    expect(attended.map(run => [run.status, run.exit_code])).toEqual([
      ['failed', 9],
      ['succeeded', 0],
    ])
  })

  it('gets the status `lost` when its host is lost, and is not repeated', async () => {
    const run = await start({ command: ['sleep', '1000'] })
    await until(async () => (await read(run.id)).status === 'running', { what: 'the run' })
    const { vm_id } = await read(run.id)
    await system.database.db.run(abandon, [vm_id])
    expect(await ended(run.id)).toMatchObject({ status: 'lost' })
  })

  it('is refused if its app or deployment is unknown, its command is invalid, or the project has too many open runs', async () => {
    expect((await ann.post('/v1/apps/none/runs', {})).status).toBe(404)
    expect((await ann.get('/v1/apps/none/runs')).status).toBe(404)
    expect((await ann.post('/v1/apps/web/runs', { command: [] })).status).toBe(400)
    expect((await ann.post('/v1/apps/web/runs', { command: ['a\0b'] })).status).toBe(400)
    expect((await ann.post('/v1/apps/web/runs', { job_id: 'job-0000000000000000' })).status).toBe(404)
    await ann.post('/v1/apps', { name: 'empty', git_url: '' })
    expect((await ann.post('/v1/apps/empty/runs', {})).body.error).toContain('no active deployment')
    const many = await Promise.all(
      Array.from({ length: 21 }, () => ann.post('/v1/apps/web/runs', { command: ['sleep', '1000'] })),
    )
    const refused = many.filter(({ status }) => status !== 200)
    expect(refused.length).toBeGreaterThan(0)
    for (const { status, body } of many) if (status === 200) await ann.delete(`/v1/apps/web/runs/${body.id}`)
  })

  it('is deleted after a month', async () => {
    const run = await start({ command: ['true'] })
    await ended(run.id)
    await system.database.db.run(age, [run.id])
    await runRetention(system.database).run({ now: new Date(), signal: new AbortController().signal })
    expect((await ann.get(`/v1/apps/web/runs/${run.id}`)).status).toBe(404)
  })
})

it('`mote restart` replaces the VMs of the deployment with new ones of the same image', {
  timeout: 60_000,
}, async () => {
  await using dir = await testDir()
  const env = { MOTE_URL: `http://127.0.0.1:${system.control.port}`, MOTE_TOKEN: ann.token ?? '' }
  const before = (await ann.get(`/v1/apps/web/deployments/${job}`)).body
  expect(await cli({ home: dir.path, env }).run(['restart', '--app', 'web'])).toMatchObject({ code: 0 })
  const after = (await ann.get(`/v1/apps/web/deployments/${(await latest('running')).job_id}`)).body
  expect(after).toMatchObject({ image: before.image, memory_mib: before.memory_mib })
  expect(after.vm_id).not.toBe(before.vm_id)
})

describe('a release command', { timeout: 60_000 }, () => {
  const set = async (command: readonly string[]) => {
    const answer = await ann.call('PATCH', '/v1/apps/shop', { port: 8080, release_command: command })
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
  }

  it('runs once, before the new version serves requests', async () => {
    await ann.post('/v1/apps', { name: 'shop', git_url: '', release_command: ['sh', '-c', 'migrate'] })
    expect((await deploy('shop')).status).toBe(200)
    const d = await latest('running', 'shop')
    const runs = (await ann.get('/v1/apps/shop/runs')).body
    expect(runs).toMatchObject([{ purpose: 'release', status: 'succeeded', job_id: d.job_id, started_by: null }])
    expect(Date.parse(runs[0].started_at)).toBeLessThan(Date.parse(d.scheduled_at ?? d.updated_at))
  })

  it('that fails stops the rollout: the old version keeps serving, and the new deployment shows the reason', async () => {
    const before = (await ann.get('/v1/apps/shop')).body.active_deployment_id
    await set(['sh', '-c', 'column exists already; exit 1'])
    await deploy('shop')
    const { job_id } = await latest('failed', 'shop')
    expect((await ann.get(`/v1/apps/shop/deployments/${job_id}`)).body.error_message).toMatch(
      /^The release command did not succeed\. The program exited with code 1\. Last lines:\n.*column/,
    )
    expect((await ann.get('/v1/apps/shop')).body.active_deployment_id).toBe(before)
    expect(await runningVms('shop')).toBe(1)
  })

  it('that has failed runs again when a user activates its deployment', async () => {
    const { id, job_id } = await latest('failed', 'shop')
    expect((await ann.post(`/v1/apps/shop/deployments/${id}/activate`)).status).toBe(200)
    const ofIt = async () =>
      (await ann.get('/v1/apps/shop/runs')).body.filter((run: { job_id: string }) => run.job_id === job_id)
    await until(async () => (await ofIt()).length === 2 && (await ofIt())[0].ended_at !== null, {
      what: 'the second run',
    })
    await latest('failed', 'shop')
    expect(await runningVms('shop')).toBe(1)
  })

  it('is cancelled when its deployment is stopped', async () => {
    await set(['sleep', '1000'])
    const { job_id } = (await deploy('shop')).body
    const release = () =>
      ann.get('/v1/apps/shop/runs').then(({ body }) => body.find((run: { job_id: string }) => run.job_id === job_id))
    await until(async () => (await release())?.status === 'running', { what: 'the release command' })
    expect((await ann.delete(`/v1/apps/shop/deployments/${job_id}`)).status).toBe(200)
    await until(async () => (await release()).ended_at !== null, { what: 'the end of the release command' })
    await latest('cancelled', 'shop')
    expect(await runningVms('shop')).toBe(1)
  })

  it("no longer runs after it was removed from the app's settings", async () => {
    await set([])
    expect((await ann.get('/v1/apps/shop')).body.release_command).toBeNull()
    const count = async () => (await ann.get('/v1/apps/shop/runs')).body.length
    const before = await count()
    await deploy('shop')
    await latest('running', 'shop')
    expect(await count()).toBe(before)
  })

  it('does not prevent the deletion of its app while it runs', async () => {
    await set(['sleep', '1000'])
    await deploy('shop')
    await until(async () => (await ann.get('/v1/apps/shop/runs')).body[0].status === 'running', { what: 'the command' })
    expect((await ann.delete('/v1/apps/shop')).status).toBe(200)
    await until(async () => (await system.database.db.one(left, ['shop'])).count === 0, {
      what: 'the app to be gone',
    })
  })
})

const runningVms = async (app: string) => (await system.database.db.one(vmsOf, [app])).count
const routeOf = statement<{ backends: unknown[] }>(
  'test.routeOf',
  `SELECT r.backends FROM route r JOIN app a ON a.id = r.app_id WHERE a.name = $1`,
)
const vmsOf = statement<{ count: number }>(
  'test.vmsOf',
  `SELECT count(*)::int AS count FROM vm v JOIN app a ON a.id = v.app_id WHERE a.name = $1 AND v.want = 'running'`,
)
const left = statement<{ count: number }>('test.left', `SELECT count(*)::int AS count FROM app WHERE name = $1`)
const abandon = statement('test.abandon', `UPDATE vm SET want = 'absent', generation = generation + 1 WHERE id = $1`)
const age = statement('test.age', `UPDATE run SET ended_at = now() - interval '31 days' WHERE id = $1`)
