// Not repeated on the distribution's PostgreSQL: this file tests the CLI, not the database.
/** Runs, as a process, every CLI command that calls the API, and checks its JSON output, exit code and effect. */
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { cliSystem } from '../support/cli-system.ts'
import { until } from '../support/wait.ts'

const { system, user, mote } = await cliSystem()
beforeAll(async () => {
  await user.post('/v1/apps', { name: 'web', git_url: '' })
  await user.post('/v1/apps/web/deploy', { image: 'oci:hello' })
  await running()
}, 120_000)

vi.setConfig({ testTimeout: 40_000 })

const newest = async () => (await user.get('/v1/apps/web/deployments')).body[0]
const running = () =>
  until(async () => (await newest())?.status === 'running', { what: 'web runs', timeoutMs: 30_000, everyMs: 50 })
const deploymentIs = (status: string) =>
  until(async () => (await newest()).status === status, {
    what: `the deployment to be ${status}`,
    timeoutMs: 30_000,
    everyMs: 50,
  })
const databaseIs = (status: string) =>
  until(async () => (await user.get('/v1/databases')).body[0]?.status === status, {
    what: `the database to be ${status}`,
    timeoutMs: 30_000,
    everyMs: 50,
  })

/** A command: its arguments, the expected JSON output, and a condition to wait for first. */
type Step = readonly [words: string, holds: unknown, before?: () => Promise<unknown>]

const groups: Readonly<Record<string, readonly Step[]>> = {
  apps: [
    ['apps create idle', { name: 'idle' }],
    ['apps show idle', { name: 'idle', git_url: '' }],
    ['apps delete idle --yes', { status: expect.any(String) }],
  ],
  'environment and rules': [
    ['env set LEVEL=debug --app web', { set: 1 }],
    ['env list --app web', [{ name: 'LEVEL' }]],
    ['env unset LEVEL --app web', expect.anything()],
    ['rules add allow tcp 80-90 --app web', { port_start: 80, port_end: 90, action: 'allow' }],
    ['rules list --app web', [{ protocol: 'tcp', port_start: 80 }]],
    ['rules delete {rule} --app web', expect.anything()],
  ],
  domains: [
    ['domains add www.example.com --app web', { name: 'www.example.com', status: 'pending' }],
    ['domains list --app web', [{ name: 'www.example.com' }]],
    ['domains delete www.example.com --app web', expect.anything()],
  ],
  repositories: [['repos list', []]],
  volumes: [
    ['volumes create data --size 64', { name: 'data', size_mib: 64 }],
    ['volumes snapshot data monday --no-wait', { name: 'monday' }],
    ['volumes snapshots data', [{ name: 'monday', status: 'ready' }], () => snapshotIsReady()],
    ['volumes clone data monday copy', { name: 'copy' }],
    ['volumes restore data monday', expect.anything()],
    ['volumes usage data', { size_bytes: expect.any(Number) }],
    ['volumes attach data --app web --at /data', expect.anything(), () => volumeIsReady()],
    ['volumes detach data --app web', expect.anything()],
    ['volumes delete copy --yes', expect.anything()],
    ['volumes delete-snapshot {volumeSnapshot}', expect.anything()],
  ],
  'virtual machines': [
    ['snapshots create calm --app web', expect.anything(), running],
    ['snapshots list --app web', [{ name: 'calm', status: 'ready' }], () => vmSnapshotIsReady()],
    ['snapshots fork calm twin --app web', expect.anything()],
    ['snapshots restore calm --app web', expect.anything()],
    ['balloon 256 --app web', expect.anything(), () => restoreHasEnded()],
    ['balloon --app web', { target_memory_mib: 256 }],
    ['migrate --app web', { status: 'none' }],
    ['snapshots delete calm --app web', expect.anything()],
  ],
  databases: [
    ['db create main --no-wait', { name: 'main' }],
    ['db update main work_mem=16MB --memory 1024', { memory_mib: 1024 }, () => databaseIs('running')],
    ['db snapshot main first --no-wait', { name: 'first' }, () => databaseIs('running')],
    ['db snapshots main', [{ name: 'first', status: 'ready' }], () => databaseSnapshotIsReady()],
    ['db snapshot main second --no-wait', { name: 'second' }],
    ['db delete-snapshot main second', expect.anything(), () => databaseSnapshotIsReady()],
    ['db restore main first --yes --no-wait', expect.anything()],
    ['db branch main try-it --from first --no-wait', { branch_name: 'try-it' }, () => databaseIs('running')],
    ['db branches main', expect.arrayContaining([expect.objectContaining({ branch_name: 'try-it' })])],
    ['db promote main try-it', expect.anything(), () => branchIsReady()],
    ['db connection main', { database_user: expect.any(String) }, () => databaseIs('running')],
    [
      'db url main',
      { url: expect.stringMatching(/^postgres:\/\/\w+:[^:@]+@main\.internal:5432\/main\?sslmode=require$/) },
    ],
    ['db backups main', { backup_strategy: expect.any(String) }],
    ['db delete-branch main {oldBranch}', expect.anything()],
    ['db delete main --yes', null],
  ],
  deployments: [
    ['deployments list --app web', [{ status: 'running' }], running],
    ['builds list --app web', []],
    ['deployments pause {job} --app web', expect.anything()],
    ['deployments resume {job} --app web', expect.anything(), () => deploymentIs('paused')],
    ['deploy --image oci:hello --app web --no-wait', { job_id: expect.any(String) }, running],
    ['deployments stop {job} --app web', expect.anything(), running],
    ['deployments delete {job} --app web', expect.anything(), () => deploymentIs('stopped')],
  ],
  project: [
    ['projects create Second', { name: 'Second' }],
    ['projects invite grace@example.com viewer', { email: 'grace@example.com', role: 'viewer' }],
    ['projects delete second --yes', expect.anything()],
    ['tokens create CI --scopes read', { token: expect.stringMatching(/^svc_pat_/) }],
    ['tokens list', [{ name: 'CI' }]],
    ['tokens revoke {token}', expect.anything()],
    ['notifications', expect.any(Array)],
    [
      'audit --action token.created',
      { items: expect.arrayContaining([expect.objectContaining({ action: 'token.created' })]) },
    ],
  ],
  hosts: [['host list', expect.arrayContaining([expect.objectContaining({ name: 'host-2', status: 'up' })])]],
}

const first = async (path: string) => (await user.get(path)).body[0]
const ready = (path: () => Promise<string>) =>
  until(async () => (await first(await path()))?.status === 'ready', {
    what: 'the resource to be ready',
  })
const snapshotIsReady = () => ready(async () => `/v1/volumes/${(await volumeNamed('data')).id}/snapshots`)
const volumeNamed = async (name: string) =>
  (await user.get('/v1/volumes')).body.find((one: { name: string }) => one.name === name)
const volumeIsReady = () =>
  until(async () => (await volumeNamed('data')).status === 'ready', { what: 'the volume to be restored' })
const vmSnapshotIsReady = () => ready(async () => `/v1/apps/web/deployments/${(await newest()).job_id}/snapshots`)
/** Waits until the hosts have carried out what is desired of each VM, such as a restore. */
const restoreHasEnded = () =>
  until(
    async () => {
      const text = `SELECT 1 FROM vm WHERE want <> 'absent' AND (seen_generation < generation OR seen_state <> 'running')`
      const behind = await system.database.db.rows({ name: 'test.behind', text })
      const { status } = await user.get(`/v1/apps/web/deployments/${(await newest()).job_id}/balloon`)
      return behind.length === 0 && status === 200
    },
    { what: 'the restore to end', everyMs: 50 },
  )
const databaseSnapshotIsReady = () =>
  ready(async () => `/v1/databases/${(await first('/v1/databases')).id}/backups/snapshots`)
const branchIsReady = () =>
  until(
    async () => {
      const { body } = await user.get(`/v1/databases/${(await first('/v1/databases')).id}/branches`)
      return body.find((one: { branch_name: string }) => one.branch_name === 'try-it')?.status === 'ready'
    },
    { what: 'the branch to be ready', timeoutMs: 30_000, everyMs: 50 },
  )

/** Values of placeholders such as `{rule}` in the arguments, looked up when the command runs. */
const found: Readonly<Record<string, () => Promise<string>>> = {
  rule: async () => (await first('/v1/apps/web/security-groups')).id,
  volumeSnapshot: async () => (await first(`/v1/volumes/${(await volumeNamed('data')).id}/snapshots`)).id,
  job: async () => (await newest()).job_id,
  token: async () => (await first('/v1/auth/tokens')).id,
  host: async () => (await user.get('/v1/admin/hosts')).body.find((one: { name: string }) => one.name === 'host-2').id,
  oldBranch: async () => {
    const { body } = await user.get(`/v1/databases/${(await first('/v1/databases')).id}/branches`)
    return body.find((one: { is_current: boolean }) => !one.is_current).branch_name
  },
}

async function wordsOf(line: string): Promise<string[]> {
  const [, name = ''] = /\{(\w+)\}/.exec(line) ?? []
  return line.replace(`{${name}}`, (await found[name]?.()) ?? '').split(' ')
}

/** Returns a matcher for a list whose items have at least these fields; other values are returned unchanged. */
const matching = (holds: unknown): unknown =>
  Array.isArray(holds) ? holds.map(one => expect.objectContaining(one)) : holds

it('mote volumes snapshot waits until the snapshot is ready, and shows the progress', async () => {
  await mote.run(['volumes', 'create', 'waited'])
  const { code, out, err } = await mote.run(['volumes', 'snapshot', 'waited', 'tuesday'])
  expect([code, out]).toEqual([0, 'Snapshot tuesday of waited is ready.\n'])
  expect(err).toMatch(/^✓ Taking the snapshot tuesday +\d/)
  expect(await mote.run(['volumes', 'delete', 'waited', '--yes'])).toMatchObject({ code: 0 })
})

describe.each(Object.entries(groups))('with --json, commands for %s print the expected JSON', (_name, steps) => {
  it.each(steps.map(([words, ...rest]) => [words, rest] as const))('mote %s', async (words, [holds, before]) => {
    await before?.()
    const { code, out, err } = await mote.run([...(await wordsOf(words)), '--json'])
    expect([code, err], words).toEqual([0, ''])
    const printed: unknown = JSON.parse(out)
    if (Array.isArray(holds)) expect(printed).toEqual(matching(holds))
    else if (typeof holds === 'object' && holds !== null && !('asymmetricMatch' in holds))
      expect(printed).toMatchObject(holds)
    else expect(printed).toEqual(holds)
  })
})

describe('exit codes', () => {
  it('mote exec exits with the code of the executed program', async () => {
    await user.post('/v1/apps/web/deploy', { image: 'oci:hello' })
    await running()
    const exec = (...program: string[]) => mote.run(['exec', '--app', 'web', '--', ...program])
    expect(await exec('echo', 'it is here')).toMatchObject({ code: 0, out: 'it is here\n' })
    expect(await exec('no-such-program')).toMatchObject({ code: 127 })
    expect(await mote.run(['exec', '--app', 'web', '--timeout', '1', '--', 'sleep', '5'])).toMatchObject({
      code: 124,
      err: expect.stringContaining('terminated after 1 s'),
    })
  })

  it.each([
    // This command fails because the installation is not connected to a source host (GitHub).
    ['repos connect', 1],
    ['repos confirm nothing', 1],
    ['domains verify none.example.com --app web', 1],
    ['builds log --app web', 1],
    ['status --app none', 1],
    ['scale many --app web', 1],
    ['deploy --memory 7 --image x --app web', 1],
    ['rules add allow', 2],
    ['logs --nonsense', 2],
  ] as const)('mote %s exits with %i and prints the reason to standard error only', async (words, expected) => {
    const { code, out, err } = await mote.run([...words.split(' '), '--json'])
    expect([code, out]).toEqual([expected, ''])
    expect(err).toMatch(/\w/)
  })
})
