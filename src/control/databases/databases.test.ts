/** Tests the database API on a simulated host: responses, refused requests and deletion. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type TestSystem, type TestUser, testSystem } from '../../../test/support/system.ts'
import { until } from '../../../test/support/wait.ts'

let system: TestSystem
let user: TestUser

beforeAll(async () => {
  system = await testSystem()
  user = await system.user()
})
afterAll(() => system[Symbol.asyncDispose]())

const create = (name: string, more: object = {}, by = user) =>
  by.post('/v1/databases', { name, engine: 'postgres', ...more })
const statusOf = async (id: string) => (await user.get(`/v1/databases/${id}`)).body.status
const running = (id: string) =>
  until(async () => (await statusOf(id)) === 'running', { everyMs: 50, timeoutMs: 90_000, what: `database ${id} runs` })
const snapshotReady = (id: string, name: string) =>
  until(
    async () =>
      (await user.get(`/v1/databases/${id}/backups/snapshots`)).body.find(
        (one: { name: string; status: string }) => one.name === name && one.status === 'ready',
      ),
    { everyMs: 50, timeoutMs: 90_000, what: `snapshot ${name} is ready` },
  )

describe('creating a database', { timeout: 200_000 }, () => {
  it('returns the whole database at once, before the database accepts connections', async () => {
    const { status, body } = await create('shop', { settings: { work_mem: '8MB' } })
    expect(status).toBe(200)
    expect(body).toMatchObject({ name: 'shop', engine: 'postgres', status: 'creating', postgres_version: 15 })
    expect(body.storage_tenant_id).toMatch(/^[0-9a-f]{32}$/)
    expect(body.storage_timeline_id).toMatch(/^[0-9a-f]{32}$/)
    expect((await user.get(`/v1/databases/${body.id}/connection`)).status).toBe(409)
    await running(body.id)
    const connection = (await user.get(`/v1/databases/${body.id}/connection`)).body
    expect(connection).toMatchObject({ database_name: 'shop', database_port: 5432, ssh_user: body.id })
    expect(connection.psql_command).toMatch(
      /^psql 'postgresql:\/\/mote:[0-9a-f]{48}@127\.0\.0\.1:\d+\/shop\?sslmode=require'$/,
    )
    const reported = (await user.get('/v1/notifications')).body.notifications
    expect(reported.map((one: { kind: string }) => one.kind)).toEqual(['database.ready'])
  })

  it('shows no apps, volumes or deployments that implement the database', async () => {
    expect((await user.get('/v1/apps')).body).toEqual([])
    expect((await user.get('/v1/volumes')).body).toEqual([])
    expect((await user.get('/v1/deployments/active')).body).toEqual([])
  })

  it.each([
    [{ engine: 'oracle' }, 'engine'],
    [{ postgres_version: 13 }, 'postgres_version'],
    [{ memory_mib: 100 }, 'memory_mib'],
    [{ vcpus: 99 }, 'vcpus'],
    [{ disk_mib: 1 }, 'disk_mib'],
    [{ postgres_version: 18 }, 'postgres_version'],
    [{ settings: { fsync: 'off' } }, 'settings/fsync'],
    [{ settings: { work_mem: "8MB'; archive_command = 'x" } }, 'settings/work_mem'],
  ])('is refused for %j, and the error names the field %s', async (more, field) => {
    const { status, body } = await create('wrong', more)
    expect(status).toBe(400)
    expect(body.details[0].field).toBe(field)
  })

  it('requires a name that is unique in the project, and other users cannot see the database', async () => {
    expect((await create('shop')).body.code).toBe('name_taken')
    const other = await system.user()
    const [mine] = (await user.get('/v1/databases')).body
    expect((await other.get(`/v1/databases/${mine.id}`)).status).toBe(404)
    expect((await create('shop', {}, other)).status).toBe(200)
  })
})

describe('snapshots and branches', { timeout: 200_000 }, () => {
  it('a restore from a snapshot retains the previous state', async () => {
    const { id } = (await create('ledger')).body
    await running(id)
    expect((await user.post(`/v1/databases/${id}/backups/snapshots`, { name: 'one' })).body.status).toBe('creating')
    await snapshotReady(id, 'one')
    expect((await user.post(`/v1/databases/${id}/backups/snapshots`, { name: 'one' })).body.code).toBe('name_taken')
    const restored = await user.post(`/v1/databases/${id}/backups/restore`, { snapshot_name: 'one' })
    expect(restored.body).toMatchObject({ success: true })
    expect(await statusOf(id)).toBe('restoring')
    expect((await user.post(`/v1/databases/${id}/backups/restore`, { snapshot_name: 'one' })).body.code).toBe(
      'operation_in_progress',
    )
    await running(id)
    const names = (await user.get(`/v1/databases/${id}/backups/snapshots`)).body.map((s: { kind: string }) => s.kind)
    expect(names).toEqual(['restore', 'user'])
    expect((await user.delete(`/v1/databases/${id}/backups/snapshots/one`)).body.success).toBe(true)
    expect((await user.get(`/v1/databases/${id}/backups/snapshots`)).body).toHaveLength(1)
  })

  it('concurrent promotions leave exactly one current branch', async () => {
    const { id } = (await create('tree')).body
    await running(id)
    await user.post(`/v1/databases/${id}/backups/snapshots`, { name: 'start' })
    await snapshotReady(id, 'start')
    const made = await user.post(`/v1/databases/${id}/branches`, { name: 'trial', from_snapshot: 'start' })
    expect(made.body).toMatchObject({ branch_name: 'trial', is_current: false, status: 'creating' })
    const branches = async () => (await user.get(`/v1/databases/${id}/branches`)).body
    await until(async () => (await branches()).every((one: { status: string }) => one.status === 'ready'), {
      everyMs: 50,
      timeoutMs: 90_000,
      what: 'both branches are ready',
    })
    expect((await user.delete(`/v1/databases/${id}/branches/main`)).body.code).toBe('invalid_state')
    await Promise.all(['trial', 'main', 'trial'].map(name => user.post(`/v1/databases/${id}/branches/${name}/promote`)))
    const current = (await branches()).filter((one: { is_current: boolean }) => one.is_current)
    expect(current).toHaveLength(1)
    const other = current[0].branch_name === 'main' ? 'trial' : 'main'
    expect((await user.delete(`/v1/databases/${id}/branches/${other}`)).status).toBe(200)
    await until(async () => (await branches()).length === 1, {
      everyMs: 50,
      timeoutMs: 90_000,
      what: `${other} is gone`,
    })
  })

  it('a database can be suspended and resumed, and restarts for new settings', async () => {
    const { id } = (await create('night')).body
    await running(id)
    await user.call('PATCH', `/v1/databases/${id}`, { suspended: true })
    await until(async () => (await statusOf(id)) === 'suspended', {
      everyMs: 50,
      timeoutMs: 90_000,
      what: 'the database is suspended',
    })
    await user.call('PATCH', `/v1/databases/${id}`, { suspended: false })
    await running(id)
    const changed = await user.call('PATCH', `/v1/databases/${id}`, {
      settings: { work_mem: '16MB' },
      memory_mib: 1024,
    })
    expect(changed.body).toMatchObject({ memory_mib: 1024, settings: { work_mem: '16MB' } })
    await until(async () => (await statusOf(id)) === 'restarting', {
      everyMs: 50,
      timeoutMs: 90_000,
      what: 'the database restarts',
    })
    await running(id)
  })
})

describe('changes of size, password and backup target', { timeout: 200_000 }, () => {
  let id = ''
  const settled = (what: string, holds: () => Promise<unknown>) =>
    until(holds, { everyMs: 50, timeoutMs: 90_000, what })
  const volumes = () =>
    system.database.db.rows<{ sizeMib: number; grownMib: number }>(
      {
        name: 'test.databaseVolumes',
        text: `SELECT o.size_mib AS "sizeMib", o.grown_mib AS "grownMib" FROM volume o
               JOIN branch b ON b.id = o.owner_id WHERE b.database_id = $1 ORDER BY o.size_mib`,
      },
      [id],
    )
  const connect = () => user.get(`/v1/databases/${id}/connection`)
  const password = async () => /mote:(\w+)@/.exec((await connect()).body.psql_command)?.[1]

  it('a disk can be enlarged while the database runs, and cannot be made smaller', async () => {
    id = (await create('growing')).body.id
    await running(id)
    const grown = await user.call('PATCH', `/v1/databases/${id}`, { disk_mib: 1536 })
    expect(grown.body).toMatchObject({ disk_mib: 1536, status: 'running', vcpus: 1 })
    await settled('the disks have grown', async () => (await volumes()).every(one => one.grownMib === one.sizeMib))
    expect((await volumes()).map(one => one.grownMib)).toEqual([1536, 3072])
    expect(await statusOf(id)).toBe('running')
    const refused = await user.call('PATCH', `/v1/databases/${id}`, { disk_mib: 1024 })
    expect(refused.body.details).toEqual([{ field: 'disk_mib', message: expect.stringContaining('at least 1536') }])
    expect((await user.get(`/v1/databases/${id}`)).body.disk_mib).toBe(1536)
  })

  it('a rotated password is valid once the running server has it, or when a suspended database starts', async () => {
    const before = await password()
    const rotated = await user.post(`/v1/databases/${id}/rotate-password`)
    expect(rotated.body, 'the password does not work yet').toMatchObject({ id, status: 'unavailable' })
    expect(JSON.stringify(rotated.body)).not.toContain(String(before))
    await running(id)
    expect((await connect()).status, 'a running database is usable').toBe(200)
    const now = await password()
    expect(now).toMatch(/^[0-9a-f]{48}$/)
    expect(now).not.toBe(before)
    const stranger = await system.user()
    expect((await stranger.post(`/v1/databases/${id}/rotate-password`)).status).toBe(404)
    await user.call('PATCH', `/v1/databases/${id}`, { suspended: true })
    await settled('the database is suspended', async () => (await statusOf(id)) === 'suspended')
    await user.post(`/v1/databases/${id}/rotate-password`)
    await user.call('PATCH', `/v1/databases/${id}`, { suspended: false })
    await running(id)
    expect((await connect()).status, 'a running database is usable').toBe(200)
    expect(await password()).not.toBe(now)
    const audit = JSON.stringify((await user.get('/v1/audit-logs?action=database.rotate_password')).body)
    expect(audit).toContain('growing')
    expect(audit).not.toContain(String(now))
  })

  const target = {
    endpoint: 'https://s3.example.com:9000',
    bucket: 'backups',
    prefix: 'mote/eu',
    access_key: 'AKEXAMPLE',
    secret_key: 'never to be seen again'.replaceAll(' ', '-'),
  }
  it('backups go to the configured target, and the API never returns the key of the target', async () => {
    const put = await user.call('PUT', `/v1/databases/${id}/backups/target`, target)
    expect(put.body).toMatchObject({ target: 's3://backups/mote/eu', status: 'pending', retention_valid: false })
    const reported = JSON.stringify([put.body, (await user.get('/v1/audit-logs')).body])
    expect(reported).not.toContain(target.secret_key)
    await running(id)
    expect((await user.get(`/v1/databases/${id}/backups`)).body.target).toBe('s3://backups/mote/eu')
    expect((await user.delete(`/v1/databases/${id}/backups/target`)).body.target).toBe('volume')
    await running(id)
    const stranger = await system.user()
    expect((await stranger.call('PUT', `/v1/databases/${id}/backups/target`, target)).status).toBe(404)
  })

  it.each([
    [{ endpoint: 'http://s3.example.com' }, 'endpoint'],
    [{ endpoint: 'https://s3.example.com/path' }, 'endpoint'],
    [{ bucket: 'Not a bucket' }, 'bucket'],
    [{ prefix: '../other/' }, 'prefix'],
    [{ region: 'a\nb' }, 'region'],
    [{ secret_key: 'two words' }, 'secret_key'],
    [{ ca_certificate: 'no certificate' }, 'ca_certificate'],
  ])('a request with the backup target %j is refused, and the error names the field %s', async (change, field) => {
    const { status, body } = await user.call('PUT', `/v1/databases/${id}/backups/target`, { ...target, ...change })
    expect(status).toBe(400)
    expect(body.details[0].field).toBe(field)
  })

  it('a restore to an instant requires a backup, and is refused for an invalid or future instant', async () => {
    const to = (at: string) => user.post(`/v1/databases/${id}/backups/restore-to`, { at })
    expect((await to('2999-01-01T00:00:00Z')).body.details[0].field).toBe('at')
    expect((await to('yesterday')).body.details[0].field).toBe('at')
    expect((await to('2026-01-01T00:00:00Z')).body.code).toBe('invalid_state')
  })
})

describe("the page servers' request /re-attach", { timeout: 200_000 }, () => {
  it('does not return databases that store their data on volumes', async () => {
    const before = (await user.get('/v1/databases')).body[0]
    expect((await system.api.post('/re-attach')).body).toEqual({ tenants: [] })
    expect((await system.api.post('/re-attach', { node_id: 7 })).status).toBe(404)
    expect((await user.get('/v1/databases')).body[0].tenant_gen).toBe(before.tenant_gen)
  })
})

describe('deleting all databases', { timeout: 200_000 }, () => {
  it('leaves no VM, volume or app that implemented them', async () => {
    for (const { id } of (await user.get('/v1/databases')).body)
      expect((await user.delete(`/v1/databases/${id}`)).body).toBeNull()
    await until(async () => (await user.get('/v1/databases')).body.length === 0, {
      everyMs: 50,
      timeoutMs: 90_000,
      what: 'all databases are deleted',
    })
    const left = await system.database.db.rows<{ kind: string; count: number }>(
      {
        name: 'test.databasesLeft',
        text: `SELECT 'vm' AS kind, count(*)::int AS count FROM vm WHERE project_id = $1
             UNION ALL SELECT 'volume', count(*)::int FROM volume WHERE project_id = $1
             UNION ALL SELECT 'app', count(*)::int FROM app WHERE project_id = $1`,
      },
      [(await user.get('/v1/projects')).body[0].id],
    )
    expect(left.map(({ count }) => count)).toEqual([0, 0, 0])
  })
})
