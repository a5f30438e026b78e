// Not repeated on the distribution's PostgreSQL: this file tests real VMs, not the control plane's database.
/**
 * Tests of a managed database as a user sees it: a real PostgreSQL in a real VM, which is reached by running the
 * commands from the API in a shell.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AgentConfig } from '../../src/agent/base/config.ts'
import { parseControlConfig } from '../../src/control/base/config.ts'
import { run } from '../../src/lib/exec.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { vmDirOf, vmmsIn } from './agent/agent.ts'
import { databaseImages, databaseVersion } from './database-image.ts'
import { freePort } from './free-port.ts'
import { type TestSystem, type TestUser, testSystem } from './system.ts'
import { until } from './wait.ts'

/** Configuration of the hosts on which the database runs. */
export interface DatabaseHosts {
  readonly hypervisor: string
  /**
   * Programs that this hypervisor needs, besides those that every managed database needs. Without them, tests are
   * skipped.
   */
  readonly programs: readonly string[]
  /** Reasons to skip the tests other than missing programs. */
  readonly missing?: readonly string[]
  readonly config: Partial<AgentConfig>
}

const always = ['skopeo', 'umoci', 'mke2fs', 'apt-get', 'psql', 'ssh', 'sshpass']

/** SQL that returns the server's time in the format of the API. */
const serverTime = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MSZ')"

/** Long timeout, because an emulated guest shares two cores with other tests. */
const slowMs = 480_000

/** Defines the tests of a managed database on hosts with this hypervisor. */
export async function testManagedDatabase(hosts: DatabaseHosts): Promise<void> {
  const needed = [...hosts.programs, ...always]
  const present = await Promise.all(needed.map(hasProgram))
  const missing = [...(hosts.missing ?? []), ...needed.filter((_, n) => !present[n])]
  if (process.getuid?.() !== 0) missing.push('root (the image is made in a chroot)')
  const reason = missing.length > 0 ? ` skipped, missing: ${missing.join(', ')}` : ''
  describe.skipIf(missing.length > 0)(
    `a managed database on ${hosts.hypervisor}${reason}`,
    { timeout: 1_200_000 },
    () => databaseTests(hosts),
  )
}

function databaseTests({ config: host }: DatabaseHosts): void {
  let system: TestSystem
  let user: TestUser
  let token: string
  let id: string
  let keys: string
  let branching = true
  let addHost: () => Promise<unknown>
  const tunnels = new Map<string, ChildProcess>()

  beforeAll(async () => {
    const imageDir = await databaseImages().catch((cause: unknown) => {
      throw new Error(
        'The PostgreSQL image could not be made: it takes the packages of the distribution from the network.',
        {
          cause,
        },
      )
    })
    const sshPort = await freePort()
    keys = await mkdtemp(join(tmpdir(), 'mote-ssh-'))
    const { databases } = parseControlConfig({
      MOTE_SECRET_KEY: 'test-'.repeat(8),
      MOTE_SSH_HOST: '127.0.0.1',
      MOTE_SSH_PORT: String(sshPort),
    })
    const bastion = { host: '127.0.0.1', port: sshPort, hostKeyFile: join(keys, 'host_key') }
    // Spare branches (prepared in advance) are only enabled until the first branch has been made: emulated guests share
    // two cores, and preparing more would slow down the other tests.
    const config = {
      databases: {
        ...databases,
        versions: [databaseVersion],
        get spareMinutes() {
          return branching ? databases.spareMinutes : 0
        },
      },
    }
    system = await testSystem({ agents: 0, config, gateway: { bastion } })
    // Use the machine's cache of kernels and base images, because building these is not under test.
    addHost = () => system.addAgent({ ...host, imageDir, cacheDir: join(homedir(), '.cache', 'mote') })
    await addHost()
    user = await system.user()
    token = (await user.post('/v1/auth/tokens', { name: 'tunnels' })).body.token
  }, 600_000)
  afterAll(async () => {
    for (const tunnel of tunnels.values()) tunnel.kill('SIGKILL')
    await system[Symbol.asyncDispose]()
    await rm(keys, { recursive: true, force: true })
  })

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
  const standing = async () =>
    (
      await system.database.db.one<{ count: number }>(
        {
          name: 'test.standing',
          text: `SELECT count(*)::int AS count FROM branch b JOIN machine m ON m.id = b.id JOIN vm v ON v.app_id = b.app_id
                 WHERE b.kind = 'spare' AND m.phase = 'standing' AND v.seen_state = 'paused'`,
        },
        [],
      )
    ).count
  const connection = async (branch?: string) =>
    (await user.get(`/v1/databases/${id}/connection${branch ? `?branch=${branch}` : ''}`)).body
  /** Runs the ssh command from the API in the background, waits until psql works through the tunnel, and returns it. */
  const openTunnel = async (branch?: string): Promise<string> => {
    const { ssh_tunnel_command: ssh, psql_command: psql } = await connection(branch)
    tunnels.get(ssh)?.kill('SIGKILL')
    const tunnel = spawn('/bin/sh', ['-c', `exec sshpass -e ${ssh}`], {
      env: { ...process.env, SSHPASS: token, HOME: keys },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    tunnel.stderr.setEncoding('utf8').on('data', text => (said += text))
    tunnels.set(ssh, tunnel)
    await until(async () => (await sql('SELECT 1', psql).catch(() => '')) === '1', {
      everyMs: 500,
      timeoutMs: 60_000,
      what: `psql through the tunnel answers; ssh said: ${said}`,
    })
    return psql
  }
  const sql = async (statement: string, command: string): Promise<string> =>
    (
      await run('/bin/sh', ['-c', `${command} -Atq -v ON_ERROR_STOP=1 -c "$STATEMENT"`], {
        env: { STATEMENT: statement, PGCONNECT_TIMEOUT: '20' },
        timeoutMs: 60_000,
      })
    ).trim()
  const snapshotReady = (name: string) =>
    until(
      async () => {
        const all: { name: string; status: string; error: string }[] = (
          await user.get(`/v1/databases/${id}/backups/snapshots`)
        ).body
        const found = all.find(one => one.name === name)
        if (found?.status === 'failed') throw new Error(`snapshot ${name}: ${found.error}`)
        return found?.status === 'ready'
      },
      { everyMs: 200, timeoutMs: slowMs, what: `snapshot ${name} to be ready` },
    )
  const branchReady = (name: string) =>
    until(
      async () => {
        const all: { branch_name: string; status: string }[] = (await user.get(`/v1/databases/${id}/branches`)).body
        const found = all.find(one => one.branch_name === name)
        if (found?.status === 'failed') throw new Error(`branch ${name} has failed`)
        if (found?.status !== 'ready') return false
        expect((await user.get(`/v1/databases/${id}/connection?branch=${name}`)).status, 'ready is usable').toBe(200)
        return true
      },
      { everyMs: 200, timeoutMs: slowMs, what: `branch ${name} to be ready` },
    )
  let psql: string

  it('starts, and is reached by psql through the tunnel command from the API', async () => {
    id = (await user.post('/v1/databases', { name: 'shop', engine: 'postgres', settings: { work_mem: '8MB' } })).body.id
    await running('the new database runs')
    psql = await openTunnel()
    expect(await sql('SHOW server_version', psql)).toMatch(new RegExp(`^${databaseVersion}\\.`))
    expect(await sql('SHOW work_mem', psql)).toBe('8MB')
    expect(await sql('SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user', psql)).toBe('mote|f')
    expect(await sql('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()', psql)).toBe('t')
    await sql('CREATE TABLE item (n int PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())', psql)
    await sql('INSERT INTO item SELECT generate_series(1, 1000)', psql)
    expect(await sql('SELECT count(*) FROM item', psql)).toBe('1000')
  })

  it('has a tunnel that rejects other credentials and other destinations', async () => {
    const { ssh_tunnel_command: ssh, ssh_port: port, ssh_user: name } = await connection()
    const tryWith = (secret: string, command: string) =>
      run('/bin/sh', ['-c', `sshpass -e ${command}`], {
        env: { SSHPASS: secret, HOME: keys },
        timeoutMs: 20_000,
      }).then(
        () => 'ended well',
        (error: Error) => error.message,
      )
    const stranger = await system.user()
    const foreign = (await stranger.post('/v1/auth/tokens', { name: 'mine' })).body.token
    const once = ssh.replace('-N', '-o NumberOfPasswordPrompts=1 -N')
    expect(await tryWith(foreign, once)).toContain('Permission denied')
    expect(await tryWith(`${token}x`, once)).toContain('Permission denied')
    const to = `-o StrictHostKeyChecking=no -p ${port} ${name}@127.0.0.1`
    expect(await tryWith(token, `ssh ${to} id`)).toMatch(/ended with 255|channel|refused/i)
    const elsewhere = await tryWith(token, `ssh -W 127.0.0.1:22 ${to}`)
    expect(elsewhere).toMatch(/open failed|forward|255/)
    const audit = (await user.get('/v1/audit-logs?action=database.tunnel')).body
    expect(audit.total).toBeGreaterThan(0)
    expect(JSON.stringify(audit)).not.toContain(token)
  })

  it('is branched from a snapshot, and writes to branch and parent are independent', async () => {
    expect((await user.post(`/v1/databases/${id}/backups/snapshots`, { name: 'thousand' })).status).toBe(200)
    await snapshotReady('thousand')
    await sql('INSERT INTO item SELECT generate_series(1001, 1500)', psql)
    // Wait for a spare branch, from which the requested branch is made. To clients it is like any other branch.
    await until(async () => (await standing()) === 1, { timeoutMs: slowMs, what: 'a spare branch' })
    branching = false
    const made = await user.post(`/v1/databases/${id}/branches`, { name: 'trial', from_snapshot: 'thousand' })
    expect(made.body.status).toBe('creating')
    await branchReady('trial')
    const trial = await openTunnel('trial')
    expect(await sql('SELECT count(*) FROM item', trial)).toBe('1000')
    await sql('DELETE FROM item WHERE n <= 100', trial)
    expect(await sql('SELECT count(*) FROM item', trial)).toBe('900')
    expect(await sql('SELECT count(*) FROM item', psql)).toBe('1500')
    await user.delete(`/v1/databases/${id}/branches/trial`)
  })

  it('is restored from a snapshot, and another snapshot keeps the previous data', async () => {
    await user.post(`/v1/databases/${id}/backups/restore`, { snapshot_name: 'thousand' })
    await running('the restored database runs')
    psql = await openTunnel()
    expect(await sql('SELECT count(*) FROM item', psql)).toBe('1000')
    const kinds = (await user.get(`/v1/databases/${id}/backups/snapshots`)).body.map(
      (one: { kind: string }) => one.kind,
    )
    expect(kinds).toEqual(['restore', 'user'])
  })

  it('keeps every committed row after kill -9 of the VMM during writes', async () => {
    const committed: number[] = []
    let ended = false
    const writing = (async () => {
      for (let n = 2001; !ended; n++)
        try {
          committed.push(Number(await sql(`INSERT INTO item VALUES (${n}) RETURNING n`, psql)))
        } catch {
          return
        }
    })()
    await until(() => committed.length >= 5, { timeoutMs: 60_000, what: 'five committed rows' })
    // Kill the database's own VM, not that of a restore drill, which may run at the same time.
    const { id: vmId } = await system.database.db.one<{ id: string }>(
      {
        name: 'test.currentVm',
        text: `SELECT v.id FROM vm v JOIN branch b ON b.app_id = v.app_id WHERE b.database_id = $1 AND b.is_current
               AND v.want <> 'absent'`,
      },
      [id],
    )
    const vmms = async () => {
      const all = await vmmsIn(system.dir)
      const dirs = await Promise.all(all.map(pid => vmDirOf(pid)))
      return all.filter((_, n) => dirs[n]?.includes(vmId))
    }
    expect(await vmms()).toHaveLength(1)
    // Start to observe before the kill: the writing client may block for longer than the restart takes.
    const observedGone = until(async () => (await status()).status !== 'running', {
      everyMs: 50,
      timeoutMs: slowMs,
      what: 'the loss of the VM to be observed',
    })
    for (const pid of await vmms()) process.kill(pid, 'SIGKILL')
    await observedGone
    ended = true
    for (const tunnel of tunnels.values()) tunnel.kill('SIGKILL')
    await writing
    await running('the database runs again')
    psql = await openTunnel()
    const found = (await sql('SELECT n FROM item WHERE n > 2000 ORDER BY n', psql)).split('\n').map(Number)
    expect(committed.filter(n => !found.includes(n))).toEqual([])
  })

  it('keeps acknowledged rows when its host is drained during writes, under the same psql command', async () => {
    const hosts = async (): Promise<{ id: string; vms: number; hypervisors: { available: boolean }[] }[]> =>
      (await user.get('/v1/admin/hosts')).body
    const [source] = await hosts()
    await addHost()
    const other = async () => (await hosts()).find(host => host.id !== source?.id)
    await until(async () => (await other())?.hypervisors[0]?.available === true, {
      everyMs: 200,
      timeoutMs: slowMs,
      what: 'the other host offers its hypervisor',
    })
    const acknowledged: number[] = []
    const ended = new AbortController()
    const writing = (async () => {
      for (let n = 5001; !ended.signal.aborted; n++) {
        const row = await sql(`INSERT INTO item VALUES (${n}) RETURNING n`, psql).catch(() => '')
        if (row === String(n)) acknowledged.push(n)
      }
    })()
    const more = (count: number, what: string) => {
      const before = acknowledged.length
      return until(() => acknowledged.length >= before + count, { everyMs: 200, timeoutMs: slowMs, what })
    }
    await more(3, 'rows are acknowledged')
    const here = async () => (await user.get(`/v1/admin/hosts/${source?.id}`)).body
    await user.post(`/v1/admin/hosts/${source?.id}/drain`)
    expect((await here()).leaving.length).toBeGreaterThan(0)
    await until(async () => (await here()).vms === 0, {
      everyMs: 200,
      timeoutMs: slowMs,
      what: 'the first host to be empty',
    }).catch(async (cause: unknown) => {
      throw new Error(JSON.stringify((await here()).leaving), { cause })
    })
    await more(3, 'rows are acknowledged over there')
    ended.abort()
    await writing
    await running('the database runs there')
    expect((await connection()).psql_command).toBe(psql)
    const found = (await sql('SELECT n FROM item WHERE n > 5000 ORDER BY n', psql)).split('\n').map(Number)
    expect(acknowledged.filter(n => !found.includes(n))).toEqual([])
    expect((await other())?.vms).toBeGreaterThan(0)
  })

  const fullBackup = () =>
    until(async () => (await user.get(`/v1/databases/${id}/backups`)).body.newest_backup_at !== null, {
      everyMs: 500,
      timeoutMs: 600_000,
      what: 'a full backup',
    })

  it('is branched at a chosen second from backups, and the branch is promoted', async () => {
    await fullBackup()
    const before = Number(await sql('SELECT count(*) FROM item', psql))
    const at = await sql(serverTime, psql)
    await pause(1100)
    await sql('DELETE FROM item', psql)
    await user.post(`/v1/databases/${id}/branches`, { name: 'earlier', at })
    await branchReady('earlier')
    const earlier = await openTunnel('earlier')
    expect(Number(await sql('SELECT count(*) FROM item', earlier))).toBe(before)
    await sql('INSERT INTO item VALUES (-1)', earlier)
    expect(await sql('SELECT count(*) FROM item', psql)).toBe('0')
    const promoted = await user.post(`/v1/databases/${id}/branches/earlier/promote`)
    expect(promoted.body.is_current).toBe(true)
    const now = await openTunnel()
    expect(Number(await sql('SELECT count(*) FROM item', now))).toBe(before + 1)
  })

  it('has backups that a restore drill verifies', async () => {
    const backups = async () => (await user.get(`/v1/databases/${id}/backups`)).body
    await until(async () => (await backups()).checked_at !== null, {
      everyMs: 500,
      timeoutMs: 300_000,
      what: 'a restore drill to end',
    })
    expect(await backups()).toMatchObject({ status: 'verified', retention_valid: true, error: null })
  })

  it('is restored in place to a chosen second, also after a branch was promoted', async () => {
    await fullBackup()
    psql = await openTunnel()
    const before = Number(await sql('SELECT count(*) FROM item', psql))
    const at = await sql(serverTime, psql)
    await pause(1100)
    await sql('DELETE FROM item', psql)
    const { status: answer } = await user.post(`/v1/databases/${id}/backups/restore-to`, { at })
    expect(answer).toBe(200)
    await until(async () => (await status()).status !== 'running', { timeoutMs: 60_000, what: 'the restore to begin' })
    await running('the restored database runs')
    psql = await openTunnel()
    expect(Number(await sql('SELECT count(*) FROM item', psql))).toBe(before)
  })

  it('leaves nothing after deletion', async () => {
    await user.delete(`/v1/databases/${id}`)
    await until(async () => (await user.get('/v1/databases')).body.length === 0, {
      everyMs: 200,
      timeoutMs: slowMs,
      what: 'the database to be deleted',
    })
    expect(await vmmsIn(system.dir)).toEqual([])
  })
}
