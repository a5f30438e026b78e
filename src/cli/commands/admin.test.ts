/** Not repeated on the distribution's PostgreSQL: this tests the command line, not the database. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { itInAll, runsAll } from '../../../test/support/all-examples.ts'
import { startPrivateServer } from '../../../test/support/global-setup.ts'
import { type Identity, startIdentity } from '../../../test/support/identity.ts'
import { natsMissing } from '../../../test/support/nats.ts'
import { moteProgram } from '../../../test/support/program.ts'
import { startReaper } from '../../../test/support/reaper.ts'
import { until } from '../../../test/support/wait.ts'
import { auditSealing } from '../../control/audit/index.ts'
import { statement } from '../../db/db.ts'
import { startEmbeddedPostgres } from '../../db/embedded.ts'
import { migrate } from '../../db/migrate.ts'

interface Run {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const mote = (args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Run> =>
  new Promise(resolve => {
    const { PATH, NODE_COMPILE_CACHE } = process.env
    const options = { env: { PATH, NODE_COMPILE_CACHE, HOME: tmpdir(), ...env } }
    const child = execFile(process.execPath, [moteProgram, 'admin', ...args], options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })

describe('mote admin with DATABASE_URL', () => {
  let server: Awaited<ReturnType<typeof startPrivateServer>> | undefined
  let api: Identity
  let env: Record<string, string>
  const admin = async (...args: string[]) => {
    const run = await mote([...args, '--json'], env)
    return { ...run, json: run.stdout === '' ? undefined : JSON.parse(run.stdout) }
  }
  beforeAll(async () => {
    // The audit chain is sealed only when no older transaction runs on the whole server, so the test needs a private
    // server. That test is not in `npm test`.
    if (runsAll) server = await startPrivateServer('embedded')
    api = await startIdentity(server && { postgres: server })
    env = { DATABASE_URL: api.url, MOTE_SECRET_KEY: api.deps.config.secrets[0] ?? '' }
    await api.person('first@example.com')
  })
  afterAll(async () => {
    await api[Symbol.asyncDispose]()
    await server?.[Symbol.asyncDispose]()
  })

  it('creates an account that can sign in, and refuses a second one with the same address', async () => {
    const made = await admin('create-account', 'Grace@example.com')
    expect(made).toMatchObject({ code: 0, json: { email: 'Grace@example.com', role: 'User' } })
    const body = { email: 'grace@example.com', password: made.json.password }
    expect((await api.call('POST', '/v1/auth/login', { body })).status).toBe(200)
    const again = await admin('create-account', 'grace@example.com')
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('already')])
    expect((await admin('create-account', 'nobody')).stderr).toContain('not an e-mail address')
  })

  it('grants the Admin role, and refuses to remove it from the last Admin', async () => {
    const { email, token } = await api.person()
    expect(await admin('set-role', email, 'Admin')).toMatchObject({ code: 0, json: { email, role: 'Admin' } })
    expect((await api.call('GET', '/v1/auth/me', { token })).body['role']).toBe('Admin')
    expect((await admin('set-role', 'first@example.com', 'User')).code).toBe(0)
    const last = await admin('set-role', email, 'User')
    expect([last.code, last.stdout]).toEqual([1, ''])
    expect(last.stderr).toContain('last Admin')
    expect((await admin('set-role', 'nobody@example.com', 'Admin')).stderr).toContain('no account')
    expect((await admin('set-role', email, 'root')).stderr).toContain('not a role')
    expect((await admin('set-role', email)).code, 'wrong usage').toBe(2)
  })

  it('ends all sessions of an account', async () => {
    const { email, token } = await api.person()
    expect(await admin('revoke-sessions', email)).toMatchObject({ code: 0, json: { email, ended: 1 } })
    expect((await api.call('GET', '/v1/auth/me', { token })).status).toBe(401)
  })

  // Not in `npm test`: src/control/audit/audit.test.ts covers this.
  itInAll('verifies the audit log and detects a changed row', async () => {
    const { db } = api.deps
    const unsealed = statement<{ n: number }>(
      'test.unsealed',
      'SELECT count(*) AS n FROM audit_log WHERE position IS NULL',
    )
    const seal = async () => {
      await auditSealing(api.deps).run({ signal: new AbortController().signal, now: new Date() })
      return (await db.one(unsealed)).n === 0
    }
    await until(seal, { what: 'every row is sealed' })
    expect(await admin('audit', 'verify')).toMatchObject({ code: 0, json: { intact: true } })
    const tamper = (name: string, text: string) => db.run(statement(`test.tamper.${name}`, text))
    await tamper('off', 'ALTER TABLE audit_log DISABLE TRIGGER USER')
    await tamper('change', `UPDATE audit_log SET details = '{"forged": true}' WHERE position = 2`)
    expect(await admin('audit', 'verify')).toMatchObject({ code: 1, json: { intact: false, at: 2 } })
    expect((await mote(['audit', 'verify'], env)).stdout).toContain('NOT intact')
  })

  it('re-encrypts secrets with the newest key, and reports those under an unknown key', async () => {
    const { token } = await api.person()
    await api.call('GET', '/v1/auth/2fa/setup', { token })
    const keys = `another-secret-for-the-rotation-of-the-tests,${env['MOTE_SECRET_KEY']}`
    const rotated = await mote(['rotate-key', '--json'], { DATABASE_URL: api.url, MOTE_SECRET_KEYS: keys })
    expect(JSON.parse(rotated.stdout).columns[0]).toEqual({
      column: 'account.totp_secret',
      resealed: 1,
      current: 0,
      unreadable: 0,
    })
    const behind = await admin('rotate-key')
    expect([behind.code, behind.json.columns[0].unreadable]).toEqual([1, 1])
  })

  it('lists sweeps and alerts', async () => {
    const { db } = api.deps
    const insert = (name: string, text: string) => db.run(statement(`test.insert.${name}`, text))
    await insert(
      'sweep',
      `INSERT INTO sweep_run (name, started_at, duration_ms, result, runs) VALUES ('good', now(), 3, '{"removed": 2}', 1)`,
    )
    expect(await admin('sweeps')).toMatchObject({ code: 0, json: [{ name: 'good', result: { removed: 2 } }] })
    await insert(
      'failed',
      `INSERT INTO sweep_run (name, started_at, error, failures_in_a_row) VALUES ('bad', now(), 'no luck', 3)`,
    )
    const sweeps = await mote(['sweeps'], env)
    expect([sweeps.code, sweeps.stdout]).toEqual([1, expect.stringMatching(/bad .* 3 +no luck/)])
    expect((await mote(['alerts'], env)).stdout).toBe('No alerts.\n')
    await insert('alert', `INSERT INTO alert (kind, machine_id, phase) VALUES ('vm', gen_random_uuid(), 'starting')`)
    expect(await admin('alerts')).toMatchObject({ code: 0, json: [{ kind: 'vm', phase: 'starting', lastError: null }] })
  })

  it('reports missing settings', async () => {
    const nowhere = await mote(['sweeps', '--data', join(tmpdir(), 'no-such-installation')])
    expect([nowhere.code, nowhere.stderr]).toEqual([1, expect.stringContaining('there is no installation in')])
    const keyless = await mote(['audit', 'verify'], { DATABASE_URL: api.url })
    expect([keyless.code, keyless.stderr]).toEqual([1, expect.stringContaining('no secret is configured')])
  })
})

describe('mote admin with --data, for an embedded PostgreSQL server', () => {
  const log = pino({ level: 'silent' })
  const reaper = startReaper()
  let data: string
  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), 'mote-admin-'))
  })
  afterAll(async () => {
    await rm(data, { recursive: true, force: true })
    await reaper.finish()
  })

  it('uses the server if another process runs it, and otherwise starts it and stops it afterwards', async () => {
    const dataDir = join(data, 'postgres')
    const server = await startEmbeddedPostgres({ dataDir, log, settings: { fsync: 'off' } })
    reaper.killAtEnd(server.pid())
    expect((await mote(['sweeps', '--data', data])).stderr).toContain('schema belongs to another version')
    await migrate({ url: server.url })
    expect(await mote(['alerts', '--data', data])).toMatchObject({ code: 0, stdout: 'No alerts.\n' })
    expect(() => process.kill(server.pid(), 0)).not.toThrow()
    await server.stop()
    reaper.forget(server.pid())
    expect(await mote(['alerts', '--data', data])).toMatchObject({ code: 0, stdout: 'No alerts.\n' })
    const again = await startEmbeddedPostgres({ dataDir, log, settings: { fsync: 'off' } })
    reaper.killAtEnd(again.pid())
    expect(again.started).toBe(true)
    await again.stop()
  }, 60_000)
})

it.skipIf(natsMissing !== undefined)(`nats-server accepts the output of nats-config ${natsMissing ?? ''}`, async () => {
  const { code, stdout } = await mote(['nats-config', '--address', 'bus.example:4222'])
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(/^# Control planes: NATS_URL=nats:\/\/control:\S+@bus.example:4222$/m),
  ])
  const dir = await mkdtemp(join(tmpdir(), 'mote-nats-config-'))
  const file = join(dir, 'nats.conf')
  await writeFile(file, stdout.replace('/var/lib/nats', dir))
  const checked = await promisify(execFile)('nats-server', ['-t', '-c', file])
  expect(checked.stderr + checked.stdout).toContain('is valid')
  await rm(dir, { recursive: true })
  expect((await mote(['nats-config', '--address', 'bus.example'])).stderr).toContain('not a host with a port')
})
