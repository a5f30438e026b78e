// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
/**
 * A database whose backups and WAL archive go to object storage, and a point-in-time restore from there. PostgreSQL and
 * pgBackRest run in a real VM; a strict S3 test server runs in another network namespace.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { place, shortName } from '../support/agent/net.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { run } from '../../src/lib/exec.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { databaseImages } from '../support/database-image.ts'
import { type TestSystem, type TestUser, testSystem } from '../support/system.ts'
import { until } from '../support/wait.ts'

const [gvisor] = (await driverCases()).filter(({ spec, skip }) => spec.hypervisor === 'gvisor' && !skip)
/**
 * Hypervisor of the database's VM: gVisor if it works here, because emulation takes three times the CPU time.
 * database.test.ts covers archiving from an emulated guest.
 */
const guests = gvisor?.config ?? { hypervisor: 'qemu', network: 'tap' }
const needed = [
  ...(gvisor ? [] : ['qemu-system-x86_64']),
  ...['skopeo', 'umoci', 'mke2fs', 'apt-get', 'openssl', 'ip', 'psql'],
]
const present = await Promise.all(needed.map(hasProgram))
const missing = needed.filter((_, n) => !present[n])
if (process.getuid?.() !== 0) missing.push('root (a network namespace, and the image is made in a chroot)')
const reason = missing.length > 0 ? `skipped, missing: ${missing.join(', ')}` : ''

/** Long timeout, because an emulated guest shares two cores with other tests. */
const slowMs = 480_000
const key = { access: 'AKTEST', secret: 'a-secret-of-this-test' }

describe.skipIf(missing.length > 0)(`a database with object storage ${reason}`, { timeout: 900_000 }, () => {
  const stack = new AsyncDisposableStack()
  let system: TestSystem
  let user: TestUser
  let server: ChildProcess
  let endpoint: string
  let certificate: string
  let id: string

  beforeAll(async () => {
    const imageDir = await databaseImages()
    const dir = await mkdtemp(join(tmpdir(), 'mote-s3-'))
    stack.defer(() => rm(dir, { recursive: true, force: true }))
    const at = `198.51.100.${4 * (process.pid % 60) + 2}`
    const elsewhere = stack.use(await place(shortName('s3')))
    const device = shortName('sv')
    await run('ip', ['link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', elsewhere.name])
    const here = `198.51.100.${4 * (process.pid % 60) + 1}`
    await run('ip', ['addr', 'add', `${here}/30`, 'dev', device])
    await run('ip', ['link', 'set', device, 'up'])
    await elsewhere.ip('addr', 'add', `${at}/30`, 'dev', 'eth0')
    await elsewhere.ip('link', 'set', 'eth0', 'up')
    // The certificate's common name must be the IP address: pgBackRest compares it with the host name as text.
    await run('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', `/CN=${at}`, '-keyout', join(dir, 'tls.key'), '-out', join(dir, 'tls.crt')],
    ])
    certificate = await readFile(join(dir, 'tls.crt'), 'utf8')
    const program = ['node', 'test/support/s3-server.ts', at, '9000', dir, key.access, key.secret]
    server = spawn('ip', ['netns', 'exec', elsewhere.name, ...program], { stdio: ['ignore', 'pipe', 'inherit'] })
    stack.defer(async () => {
      server.kill('SIGKILL')
      await once(server, 'exit')
    })
    if (server.stdout) await once(server.stdout, 'data')
    endpoint = `https://${at}:9000`
    system = await testSystem({ agents: 0 })
    stack.defer(async () => system[Symbol.asyncDispose]())
    await system.addAgent({
      ...guests,
      imageDir,
      cacheDir: join(homedir(), '.cache', 'mote'),
    })
    user = await system.user()
  }, 600_000)
  afterAll(() => stack.disposeAsync(), 120_000)

  const status = async () => (await user.get(`/v1/databases/${id}`)).body
  const running = (what: string) =>
    until(
      async () => {
        const now = await status()
        if (now.status === 'failed') throw new Error(`the database has failed: ${now.message}`)
        return now.status === 'running'
      },
      { everyMs: 200, timeoutMs: slowMs, what },
    )
  const backups = async () => (await user.get(`/v1/databases/${id}/backups`)).body
  /** Runs SQL as the database's owner, from the host, over TLS and with the password. */
  const sql = async (statement: string): Promise<string> => {
    const { psql_command: command } = (await user.get(`/v1/databases/${id}/connection`)).body
    const [vm] = await system.database.db.rows<{ host: string; port: number }>(
      {
        name: 'test.endpoint',
        text: `SELECT v.endpoint_host AS host, v.endpoint_port AS port FROM vm v JOIN branch b ON b.app_id = v.app_id
               WHERE b.database_id = $1 AND b.is_current AND v.want = 'running' ORDER BY v.id DESC LIMIT 1`,
      },
      [id],
    )
    const url = new URL(/'(.*)'/.exec(command)?.[1] ?? '')
    url.host = `${vm?.host}:${vm?.port}`
    const text = await run('psql', [String(url), '-Atq', '-v', 'ON_ERROR_STOP=1', '-c', statement], {
      env: { PGCONNECT_TIMEOUT: '30' },
      timeoutMs: 60_000,
    })
    return text.trim()
  }

  it('stores WAL and full backups in the bucket', async () => {
    id = (await user.post('/v1/databases', { name: 'ledger', engine: 'postgres' })).body.id
    const target = { endpoint, bucket: 'backups', access_key: key.access, secret_key: key.secret }
    const put = await user.call('PUT', `/v1/databases/${id}/backups/target`, {
      ...target,
      ca_certificate: certificate,
    })
    expect(put.body).toMatchObject({ target: 's3://backups/mote', status: 'pending' })
    await running('the database runs with its backup target')
    await sql('CREATE TABLE item (n int); INSERT INTO item SELECT generate_series(1, 1000)')
    await until(async () => (await backups()).newest_backup_at !== null, {
      everyMs: 500,
      timeoutMs: slowMs,
      what: 'a full backup',
    })
    expect(await backups()).toMatchObject({ target: 's3://backups/mote', error: null })
  })

  it('accepts a rotated password and rejects the old one at once', async () => {
    const before = (await user.get(`/v1/databases/${id}/connection`)).body.psql_command
    await user.post(`/v1/databases/${id}/rotate-password`)
    await until(async () => (await user.get(`/v1/databases/${id}/connection`)).status === 200, {
      everyMs: 100,
      timeoutMs: 60_000,
      what: 'the server to accept the new password',
    })
    expect(await sql('SELECT count(*) FROM item')).toBe('1000')
    const old = /mote:(\w+)@/.exec(before)?.[1] ?? ''
    const [vm] = await system.database.db.rows<{ url: string }>({
      name: 'test.url',
      text: `SELECT endpoint_host || ':' || endpoint_port AS url FROM vm WHERE want = 'running'`,
    })
    const refused = run('psql', [`postgresql://mote:${old}@${vm?.url}/ledger?sslmode=require`, '-c', 'SELECT 1'])
    await expect(refused).rejects.toThrow(/password authentication failed/)
  })

  it('grows its disk while the server runs', async () => {
    const started = await sql('SELECT pg_postmaster_start_time()')
    await user.call('PATCH', `/v1/databases/${id}`, { disk_mib: 2048 })
    await until(
      async () =>
        (
          await system.database.db.rows({
            name: 'test.growing',
            text: 'SELECT id FROM volume WHERE grown_mib < size_mib',
          })
        ).length === 0,
      { everyMs: 200, timeoutMs: 120_000, what: 'the disks to grow' },
    )
    expect(await sql('SELECT pg_postmaster_start_time()')).toBe(started)
    expect(await sql('SELECT count(*) FROM item')).toBe('1000')
  })

  it('is restored in place to a chosen second, although its VM was killed before the WAL was archived', async () => {
    const at = await sql(`SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MSZ')`)
    await pause(1100)
    await sql('DELETE FROM item')
    for (const pid of await vmmsIn(system.dir)) process.kill(pid, 'SIGKILL')
    const restored = await user.post(`/v1/databases/${id}/backups/restore-to`, { at })
    expect(restored.body).toMatchObject({ success: true })
    expect((await status()).status).toBe('restoring')
    await until(async () => (await status()).status !== 'restoring', {
      everyMs: 200,
      timeoutMs: slowMs,
      what: 'the restore to end',
    })
    await running('the restored database runs')
    const notifications = (await user.get('/v1/notifications')).body.notifications
    expect(notifications.filter((one: { kind: string }) => one.kind === 'database.failed')).toEqual([])
    expect(await sql('SELECT count(*) FROM item')).toBe('1000')
    await sql('INSERT INTO item VALUES (0)')
    const kept = (await user.get(`/v1/databases/${id}/backups/snapshots`)).body
    expect(kept).toMatchObject([{ kind: 'restore', status: 'ready' }])
  })

  it('leaves nothing on the host after deletion', async () => {
    await user.delete(`/v1/databases/${id}`)
    await until(async () => (await user.get('/v1/databases')).body.length === 0, {
      everyMs: 200,
      timeoutMs: slowMs,
      what: 'the database to be deleted',
    })
    expect(await vmmsIn(system.dir)).toEqual([])
  })
})
