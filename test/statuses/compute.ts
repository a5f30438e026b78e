/**
 * Calls every operation on apps, deployments, VMs and builds, successfully and, where possible, with a conflict (409).
 */
import { gzipSync } from 'node:zlib'
import { createHmac } from 'node:crypto'
import { pack } from 'tar-stream'
import { buffer } from 'node:stream/consumers'
import { faultyServer } from './servers.ts'
import { until } from '../support/wait.ts'
import { whileSet, type World } from './world.ts'

export const image = 'example.com/image:1'

export async function apps(world: World): Promise<void> {
  const { see, params } = world
  const made = (await see('createApp', 200, { body: { name: 'shop', git_url: '', drain_timeout: 0 } })).body
  params['app_name'] = 'shop'
  params['app_id'] = made.id
  await see('createApp', 409, { body: { name: 'shop', git_url: '' }, how: 'name of another app' })
  await see('listApps', 200)
  await see('getApp', 200)
  await see('updateApp', 200, { body: { port: 8080 } })
  await see('getAppSecret', 200)
  params['name'] = 'GREETING'
  await see('putAppEnv', 200, { body: { value: 'hello' } })
  await see('putAppEnv', 200, { body: { value: 'hello', secret: false } })
  await see('listAppEnv', 200)
  await see('getAppEnv', 200)
  await see('putAppEnv', 200, { params: { name: 'OTHER' }, body: { value: 'x' } })
  await see('deleteAppEnv', 200, { params: { name: 'OTHER' } })
  params['version'] = '1'
  await see('listAppEnvVersions', 200)
  await see('getAppEnvVersion', 200)
  await see('restoreAppEnvVersion', 200)
  await envGroups(world)
  const path = '/etc/app/app.conf'
  await see('putAppFile', 200, { body: { path, content: 'aGVsbG8=' } })
  await see('putAppFile', 200, { body: { path: '/run/token', variable: 'GREETING', mode: '0400' } })
  await see('listAppFiles', 200)
  await see('getAppFileContent', 200, { query: { path } })
  await see('deleteAppFile', 200, { query: { path } })
  params['domain'] = 'www.example.com'
  await see('addDomain', 200, { body: { name: 'www.example.com' } })
  await see('addDomain', 200, { body: { name: 'spare.example.com' } })
  await see('listDomains', 200)
  await see('getDomain', 200)
  await see('verifyDomain', 200)
  await see('deleteDomain', 200, { params: { domain: 'spare.example.com' } })
  params['service_name'] = 'mqtt'
  await see('putTcpService', 200, { body: { port: 1883 } })
  await see('listTcpServices', 200)
  await see('getTcpService', 200)
  await see('putTcpService', 200, { params: { service_name: 'spare' }, body: { port: 1 } })
  await see('putTcpService', 409, {
    params: { service_name: 'third' },
    body: { port: 1 },
    how: 'installation without a free port',
  })
  await see('putTcpService', 409, {
    params: { service_name: 'spare' },
    body: { port: 1, tls: 'sni' },
    how: 'no port for services with TLS',
  })
  await see('deleteTcpService', 200, { params: { service_name: 'spare' } })
  const rule = { protocol: 'tcp', port_start: 80, port_end: 80, action: 'allow' }
  const spare = (await see('createSecurityRule', 200, { body: { ...rule, port_start: 79 } })).body
  params['rule_id'] = (await see('createSecurityRule', 200, { body: rule })).body.id
  await see('listSecurityRules', 200)
  await see('getSecurityRule', 200)
  await see('deleteSecurityRule', 200, { params: { rule_id: spare.id } })
  await see('getMesh', 200)
  await see('createApp', 200, { body: { name: 'spare', git_url: '', kind: 'worker', env_of: 'shop' } })
  await see('putAppEnv', 409, {
    params: { app_name: 'spare' },
    body: { value: 'x' },
    how: 'worker with the variables of another app',
  })
  await see('setAppEnvGroups', 409, {
    params: { app_name: 'spare' },
    body: { groups: [] },
    how: 'worker with the variables of another app',
  })
  await see('putAppFile', 409, {
    params: { app_name: 'spare' },
    body: { path, content: '' },
    how: 'worker with the files of another app',
  })
  await see('deleteApp', 200, { params: { app_name: 'spare' } })
  await registries(world)
  await sources(world)
}

async function registries({ see, ask, params, system, config }: World): Promise<void> {
  await see('getRegistry', 200)
  const { token } = (await ask('createToken', { body: { name: 'ci', scopes: ['deploy'] } })).body
  const headers = { authorization: `Basic ${Buffer.from(`ci:${token}`).toString('base64')}` }
  await see('getRegistryToken', 200, { headers })
  await see('getRegistryToken', 401, { how: 'no access token' })
  await using without = await faultyServer(system, { config: { ...config, registryUrl: '' } })
  await see('getRegistryToken', 404, { headers, port: without.port, how: 'installation without a registry' })
  const body = (host: string) => ({ host, username: 'ada', password: 'a token that reads' })
  params['host'] = 'ghcr.io'
  await see('putRegistryCredential', 200, { body: body('ghcr.io') })
  await see('listRegistryCredentials', 200)
  await see('getRegistryCredential', 200)
  for (let n = 1; n < 50; n++) await ask('putRegistryCredential', { body: body(`r${n}.example.com`) })
  const further = { body: body('further.example.com') }
  await see('putRegistryCredential', 409, { ...further, how: 'project with 50 credentials' })
  await see('deleteRegistryCredential', 200, { params: { host: 'r1.example.com' } })
}

async function envGroups({ see, params }: World): Promise<void> {
  params['group_name'] = 'shared'
  await see('createEnvGroup', 200, { body: { name: 'shared' } })
  await see('createEnvGroup', 200, { body: { name: 'spare' } })
  await see('createEnvGroup', 409, { body: { name: 'shared' }, how: 'name of another group' })
  await see('listEnvGroups', 200)
  await see('getEnvGroup', 200)
  await see('putEnvGroupVariable', 200, { body: { value: 'x' } })
  await see('putEnvGroupVariable', 200, { params: { name: 'OTHER' }, body: { value: 'x' } })
  await see('deleteEnvGroupVariable', 200, { params: { name: 'OTHER' } })
  await see('listEnvGroupVariables', 200)
  await see('getEnvGroupVariable', 200)
  await see('listEnvGroupVersions', 200)
  await see('getEnvGroupVersion', 200)
  await see('restoreEnvGroupVersion', 200)
  await see('setAppEnvGroups', 200, { body: { groups: ['shared'] } })
  await see('listAppEnvGroups', 200)
  await see('deleteEnvGroup', 409, { how: 'group that is attached to an app' })
  await see('deleteEnvGroup', 200, { params: { group_name: 'spare' } })
}

async function sources({ see, params, system, config }: World): Promise<void> {
  const app = { app_name: 'built' }
  await see('createApp', 200, { body: { name: 'built', git_url: 'https://127.0.0.1:1/none.git' } })
  await see('putGitCredential', 409, { body: { kind: 'token', token: 'x' }, how: 'app without a repository' })
  await see('putGitCredential', 200, { params: app, body: { kind: 'token', token: 'x' } })
  await see('getGitCredential', 200, { params: app })
  const tar = pack()
  tar.entry({ name: 'Dockerfile' }, 'FROM scratch')
  tar.finalize()
  const archive = gzipSync(await buffer(tar))
  const type = { 'content-type': 'application/gzip' }
  const { body } = await see('putAppSource', 200, { params: app, body: archive, headers: type })
  await see('deployApp', 200, { params: app, body: { source: body.source } })
  const [build] = (await see('listBuilds', 200, { params: app })).body
  const named = { ...app, build_id: build.id }
  params['build_id'] = build.id
  await see('getBuild', 200, { params: named })
  await see('getBuildLog', 200, { params: named })
  const secret = (await see('getAppSecret', 200, { params: app })).body
  const push = { ref: 'refs/heads/other', after: 'a'.repeat(40), repository: { id: 1, default_branch: 'main' } }
  const raw = Buffer.from(JSON.stringify(push))
  const signature = createHmac('sha256', secret.scm_webhook_secret).update(raw).digest('hex')
  await see('receiveAppWebhook', 200, {
    params: app,
    body: raw,
    headers: {
      'x-hub-signature-256': `sha256=${signature}`,
      'x-github-event': 'push',
      'x-github-delivery': 'first',
    },
  })
  await see('receiveAppWebhook', 401, { params: app, body: raw, how: 'no signature' })
  const [delivery] = (await see('listScmDeliveries', 200, { params: app })).body
  params['delivery_id'] = delivery.id
  await see('getScmDelivery', 200, { params: app })
  await see('deleteGitCredential', 200, { params: app })
  await using without = await faultyServer(system, { config: { ...config, sourceDir: '' } })
  const archived = { params: app, body: archive, headers: type, port: without.port }
  await see('putAppSource', 409, { ...archived, how: 'installation without source uploads' })
}

/** Deploys an app and waits until the deployment runs. */
export async function runs({ see, params }: World, app = params['app_name'] ?? '') {
  const { job_id, deployment_id } = (await see('deployApp', 200, { params: { app_name: app }, body: { image } })).body
  await hasStatus({ see }, { app_name: app, job_id }, 'running')
  return { job_id: String(job_id), deployment_id: String(deployment_id) }
}

const hasStatus = ({ see }: Pick<World, 'see'>, params: { app_name: string; job_id: string }, status: string) =>
  until(async () => (await see('getDeployment', 200, { params })).body.status === status, {
    timeoutMs: 30_000,
    everyMs: 20,
    what: `the deployment to be ${status}`,
  })

async function sessions(world: World): Promise<void> {
  const { see, params } = world
  const { body } = await see('openVmSession', 200, {
    body: { command: ['sleep', '60'], tty: { rows: 24, columns: 80 } },
  })
  params['session_id'] = body.id
  await see('getAppSsh', 200)
  await see('listVmProcesses', 200)
  await see('compareDeployment', 200)
  await see('listVmSessions', 200)
  await see('getVmSession', 200)
  await see('attachVmSession', 101)
  await see('signalVmSession', 200, { body: { signal: 'TERM' } })
  await see('closeVmSession', 200)
  await whileSet(world, 'vm_session SET removed = $1', [true, false], async () => {
    await see('attachVmSession', 409, { how: 'session that has ended' })
  })
  await see('signalVmSession', 409, { body: { signal: 'TERM' }, how: 'session that has ended' })
}

async function jobs(world: World): Promise<void> {
  const { see, params } = world
  params['job_name'] = 'nightly'
  await see('putJob', 200, { body: { schedule: '0 3 * * *', command: ['true'] } })
  await see('getAppHistory', 200)
  await see('listJobs', 200)
  await see('getJob', 200)
  const { run_id } = (await see('startJob', 200)).body
  // Cancel the run, because its VM would take capacity that later requests need.
  await cancelled(world, run_id)
  const mostJobs = 50
  const body = { schedule: '0 3 * * *', command: ['true'] }
  for (let n = 1; n < mostJobs; n++) await see('putJob', 200, { body, params: { job_name: `more-${n}` } })
  await see('putJob', 409, { body, params: { job_name: 'too-many' }, how: 'app with 50 jobs' })
  await see('deleteJob', 200)
}

async function oneOffRuns(world: World): Promise<void> {
  const { see, params } = world
  const { body } = await see('startRun', 200, { body: { command: ['sleep', '60'] } })
  params['run_id'] = body.id
  await see('listRuns', 200)
  await see('getRun', 200)
  await see('getRunLog', 200)
  await cancelled(world, body.id)
}

async function cancelled({ see }: World, run_id: string): Promise<void> {
  await see('cancelRun', 200, { params: { run_id } })
  await until(async () => (await see('getRun', 200, { params: { run_id } })).body.ended_at !== null, {
    what: 'the end of the run',
    timeoutMs: 30_000,
  })
}

async function files({ see }: World): Promise<void> {
  const query = { path: '/data/file' }
  await see('createVmDirectory', 200, { body: { path: '/data' } })
  await see('writeVmFile', 200, { query, body: 'content', headers: { 'content-type': 'application/octet-stream' } })
  await see('readVmFile', 200, { query })
  await see('readVmFile', 206, { query, headers: { range: 'bytes=1-2' } })
  await see('readVmFile', 416, { query, headers: { range: 'bytes=900-' }, how: 'range beyond the end of the file' })
  await see('readVmFile', 409, { query: { path: '/data' }, how: 'path of a directory' })
  await see('getVmFile', 200, { query })
  await see('getVmFile', 409, { query: { path: '/data/file/' }, how: 'path that is not a directory' })
  await see('listVmFiles', 200, { query: { path: '/data' } })
  await see('listVmFiles', 409, { query, how: 'path that is not a directory' })
  await see('getVmSpace', 200, { query })
  await see('getVmSpace', 409, { query: { path: '/data/file/' }, how: 'path that is not a directory' })
  await see('writeVmFile', 409, {
    query: { path: '/data' },
    body: 'content',
    headers: { 'content-type': 'application/octet-stream' },
    how: 'path of a directory',
  })
  await see('createVmDirectory', 409, { body: { path: '/data/file' }, how: 'file at the path' })
  await see('moveVmFile', 200, { body: { path: '/data/file', to: '/data/moved' } })
  await see('moveVmFile', 409, { body: { path: '/data/moved', to: '/data' }, how: 'file at the new path' })
  await see('removeVmFile', 409, { query: { path: '/data' }, how: 'directory that is not empty' })
  await see('removeVmFile', 200, { query: { path: '/data', recursive: 'true' } })
}

export async function deployments(world: World): Promise<void> {
  const { see, params } = world
  const app_name = 'shop'
  const made = await runs(world)
  Object.assign(params, made)
  const { job_id } = made
  await see('deploy', 200, { body: { app_name: 'other', image } })
  await see('deleteApp', 200, { params: { app_name: 'other' } })
  await see('listDeployments', 200)
  await see('listActiveDeployments', 200)
  await see('searchAppLogs', 200)
  await see('downloadAppLogs', 200)
  for (const id of ['streamDeployments', 'streamAppLogs', 'streamAppMetrics', 'streamWorkspace'] as const)
    await see(id, 200)
  for (const id of ['streamAllDeployments', 'streamDeploymentLogs', 'streamMesh'] as const) await see(id, 200)
  await see('scaleApp', 200, { body: { desired_replicas: 1 } })
  await see('execInVm', 200, { body: { command: ['true'] } })
  await sessions(world)
  await oneOffRuns(world)
  await jobs(world)
  await files(world)
  await see('getBalloon', 200)
  await see('setBalloon', 200, { body: { target_memory_mib: 256 } })
  await snapshots(world)
  await see('getMigration', 200)
  await moving(world, { app_name, job_id }, async () => void (await see('cancelMigration', 200)))
  await until(async () => (await see('getMigration', 200)).body.status !== 'cancelling', {
    what: 'the move to be cancelled',
  })
  await hasStatus(world, { app_name, job_id }, 'running')
  await see('pauseDeployment', 200)
  await hasStatus(world, { app_name, job_id }, 'paused')
  await see('resumeDeployment', 200)
  await hasStatus(world, { app_name, job_id }, 'running')
  const { job_id: next } = await runs(world)
  await see('activateDeployment', 200)
  await hasStatus(world, { app_name, job_id }, 'running')
  await see('deleteDeployment', 200, { params: { job_id: next } })
  const stopped = (await see('deployApp', 200, { body: { image } })).body.job_id
  await see('cancelDeployment', 200, { params: { job_id: stopped } })
  const { job_id: last } = await runs(world, await another(world))
  const its = { params: { app_name: 'another', job_id: last } }
  await see('stopDeployment', 200, its)
  await hasStatus(world, its.params, 'stopped')
  await see('getBalloon', 409, { ...its, how: 'no running VM' })
  await see('listVmProcesses', 409, { ...its, how: 'no running VM' })
}

/** Runs `work` while a deployment's VM migrates to another host. */
export async function moving(
  { see, ask, hosts, whileHostsRest }: World,
  params: { readonly app_name: string; readonly job_id: string },
  work: () => Promise<void>,
): Promise<void> {
  const { host_id } = (await see('getDeployment', 200, { params })).body
  const target = hosts.find(host => host.id !== host_id)?.name ?? ''
  const begins = () =>
    whileHostsRest(async () => {
      const begun = await ask('startMigration', { params, body: { target_host: target, target_uri: '' } })
      // Retry the move: it is rejected while another operation uses a volume or snapshot of the VM.
      if (begun.status !== 200) return false
      await work()
      return true
    })
  await until(begins, { what: 'the VM to move', everyMs: 20 })
}

async function another({ see }: World): Promise<string> {
  await see('createApp', 200, { body: { name: 'another', git_url: '', drain_timeout: 0 } })
  return 'another'
}

const isAcknowledged = async ({ system: { database } }: World): Promise<boolean> =>
  (
    await database.db.one<{ is: boolean | null }>({
      name: 'test.acknowledged',
      text: 'SELECT bool_and(seen_generation > 0) AS is FROM vm WHERE from_required',
    })
  ).is === true

async function snapshots(world: World): Promise<void> {
  const { see, params } = world
  params['snapshot_name'] = 'before'
  await see('createVmSnapshot', 200, { body: { snapshot_name: 'before' } })
  const isReady = async (name: string) =>
    (await see('getVmSnapshot', 200, { params: { snapshot_name: name } })).body.status === 'ready'
  await until(() => isReady('before'), { what: 'the snapshot to be ready', everyMs: 20 })
  await see('listVmSnapshots', 200)
  await see('createVmSnapshot', 200, { body: { snapshot_name: 'spare' } })
  await until(() => isReady('spare'), { what: 'the snapshot to be ready', everyMs: 20 })
  const forked = await world.whileHostsRest(async () => {
    const { body } = await see('forkVmSnapshot', 200, { body: { app_name: 'fork' } })
    // `deleteVmSnapshot` gets 409 until a host has acknowledged the VM of the fork, which happens too soon for a test.
    // So wait for the acknowledgment, and undo it in the database.
    await until(() => isAcknowledged(world), { what: 'the host to have the VM of the fork' })
    await whileSet(world, `vm SET seen_generation = $1 WHERE from_required`, [0, 1], () =>
      see('deleteVmSnapshot', 409, { how: 'snapshot that is being forked' }),
    )
    return body
  })
  await hasStatus(world, { app_name: 'fork', job_id: forked.job_id }, 'running')
  await see('deleteApp', 200, { params: { app_name: 'fork' } })
  await see('deleteVmSnapshot', 200, { params: { snapshot_name: 'spare' } })
  await see('restoreVmSnapshot', 200)
  await hasStatus(world, { app_name: 'shop', job_id: params['job_id'] ?? '' }, 'running')
}
