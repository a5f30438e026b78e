/** Calls every operation on volumes, databases and hosts, successfully and, where possible, with a conflict (409). */
import { until } from '../support/wait.ts'
import { record } from '../../src/control/databases/backup-store.ts'
import { moving, runs } from './compute.ts'
import { whileSet, type World } from './world.ts'

export async function volumes(world: World): Promise<void> {
  const { see, ask, params, hosts } = world
  params['volume_id'] = (await see('createVolume', 200, { body: { name: 'data', size_mib: 1024 } })).body.id
  await see('createVolume', 409, { body: { name: 'data', size_mib: 1024 }, how: 'name of another volume' })
  await see('listVolumes', 200)
  await see('getVolume', 200)
  await see('createApp', 200, { body: { name: 'stored', git_url: '', drain_timeout: 0, max_replicas: 1 } })
  const app_id = (await see('getApp', 200, { params: { app_name: 'stored' } })).body.id
  const of = { params: { app_id } }
  await see('attachVolume', 200, { ...of, body: { volume_id: params['volume_id'] } })
  await see('attachVolume', 409, {
    ...of,
    body: { volume_id: params['volume_id'] },
    how: 'volume that is already attached',
  })
  await see('deleteVolume', 409, { how: 'volume that is attached' })
  await see('scaleApp', 409, {
    params: { app_name: 'stored' },
    body: { desired_replicas: 2, max_replicas: 2 },
    how: 'app with several replicas and a read-write volume',
  })
  await see('listAppVolumes', 200, of)
  await see('getAppVolume', 200, of)
  const { job_id } = await runs(world, 'stored')
  const running = { params: { app_name: 'stored', job_id } }
  const extra = (await see('createVolume', 200, { body: { name: 'extra', size_mib: 1024 } })).body.id
  await see('attachRuntimeVolume', 200, { ...running, body: { volume_id: extra, mount_point: '/extra' } })
  await see('detachRuntimeVolume', 200, { ...running, body: { volume_id: extra } })
  params['app_id'] = app_id
  await moving(world, running.params, async () => {
    await see('detachVolume', 409, { how: 'volume moving to another host' })
    await see('cancelMigration', 200, running)
  })
  await until(async () => (await ask('detachVolume', {})).status === 200, { what: 'the move to end', everyMs: 20 })
  await see('stopDeployment', 200, running)
  const isFree = async () => (await see('getVolume', 200)).body.attachments.length === 0
  await until(isFree, { what: 'the volume to be detached', everyMs: 20 })
  await see('getVolumeUsage', 200)
  params['snapshot_id'] = (await see('createVolumeSnapshot', 200, { body: { name: 'first' } })).body.id
  await until(async () => (await see('getVolumeSnapshot', 200)).body.status === 'ready', {
    what: 'the snapshot of the volume to be ready',
    everyMs: 20,
  })
  await see('listVolumeSnapshots', 200)
  await see('cloneVolume', 200, { body: { name: 'clone', snapshot_name: 'first' } })
  await world.whileHostsRest(async () => {
    await see('restoreVolume', 200, { body: { snapshot_name: 'first' } })
    await see('updateVolume', 409, { body: { size_mib: 2048 }, how: 'volume that is being restored' })
    await see('deleteVolumeSnapshot', 409, { how: 'restore in progress' })
  })
  await until(async () => (await world.ask('updateVolume', { body: { size_mib: 2048 } })).status === 200, {
    what: 'the volume to be restored',
    everyMs: 20,
  })
  await see('setVolumeSchedule', 200, { body: { every_minutes: 60, keep: 3 } })
  await see('getVolumeSchedule', 200)
  const spare = (await see('createVolumeSnapshot', 200, { body: { name: 'spare' } })).body
  await see('deleteVolumeSnapshot', 200, { params: { snapshot_id: spare.id } })
  await see('getVolumeMove', 200)
  await world.whileHostsRest(async () => {
    const { host_id } = (await see('getVolume', 200)).body
    const target = hosts.find(host => host.id !== host_id)?.name ?? ''
    await see('moveVolume', 200, { body: { target_host: target } })
    await see('cancelVolumeMove', 200)
  })
  await see('deleteVolume', 200, { params: { volume_id: extra } })
}

export async function databases(world: World): Promise<void> {
  const { see, ask, params } = world
  params['branch_name'] = 'main'
  await world.whileHostsRest(async () => {
    params['id'] = (await see('createDatabase', 200, { body: { name: 'shop', engine: 'postgres' } })).body.id
    await see('getDatabaseConnection', 409, { how: 'database that is being created' })
  })
  await until(async () => (await see('getDatabase', 200)).body.status === 'running', {
    timeoutMs: 30_000,
    what: 'the database to run',
    everyMs: 50,
  })
  await see('listDatabases', 200)
  await see('getDatabaseConnection', 200)
  await see('streamDatabaseLogs', 200)
  await see('streamDatabaseMetrics', 200)
  await see('createTunnelPassword', 200, { body: {} })
  await see('getDatabaseBackups', 200)
  params['snapshot_name'] = 'first'
  await see('createDatabaseSnapshot', 200, { body: { name: 'first' } })
  await until(async () => (await see('getDatabaseSnapshot', 200)).body.status === 'ready', {
    what: 'the snapshot of the database to be ready',
    everyMs: 20,
  })
  await see('listDatabaseSnapshots', 200)
  await see('createDatabaseBranch', 200, { body: { name: 'trial', from_snapshot: 'first' } })
  await see('listDatabaseBranches', 200)
  await see('getDatabaseBranch', 200)
  await see('deleteDatabaseBranch', 409, { how: 'current branch of the database' })
  await see('deleteDatabaseBranch', 200, { params: { branch_name: 'trial' } })
  await see('promoteDatabaseBranch', 200)
  await world.whileHostsRest(async () => {
    await see('restoreDatabase', 200, { body: { snapshot_name: 'first' } })
    await see('deleteDatabaseSnapshot', 409, { how: 'restore in progress' })
  })
  await until(async () => (await ask('deleteDatabaseSnapshot', {})).status === 200, {
    timeoutMs: 30_000,
    what: 'the database to be restored',
    everyMs: 50,
  })
  await until(async () => (await see('getDatabase', 200)).body.status === 'running', {
    timeoutMs: 30_000,
    what: 'the database to run',
    everyMs: 50,
  })
  await see('createDatabaseSnapshot', 200, { body: { name: 'second' } })
  params['snapshot_name'] = 'second'
  await see('rotateDatabasePassword', 200)
  await see('updateDatabase', 200, { body: { memory_mib: 1024 } })
  const target = { endpoint: 'https://s3.example', bucket: 'abc', access_key: 'x', secret_key: 'y' }
  await see('setDatabaseBackupTarget', 200, { body: target })
  await see('deleteDatabaseBackupTarget', 200)
  const { db } = world.system.database
  const branch = await db.one<{ id: string }>({
    name: 'test.branch',
    text: `SELECT id FROM branch WHERE is_current LIMIT 1`,
  })
  const newestAt = new Date()
  await record(db, branch.id, { newestAt, backups: 1, sizeBytes: 1, startedAt: null, error: null })
  await see('restoreDatabaseTo', 200, { body: { at: newestAt.toISOString() } })
  const page = `database SET backend = $1, storage_node = CASE WHEN $1 = 'neon' THEN 1 END`
  await whileSet(world, page, ['neon', 'volume'], async () => {
    await see('setDatabaseBackupTarget', 409, { body: target, how: 'database of a page server' })
    await see('deleteDatabaseBackupTarget', 409, { how: 'database of a page server' })
  })
  const disks = `volume SET state = $1 WHERE owner <> 'user'`
  await whileSet(world, disks, ['failed', 'ready'], () =>
    see('updateDatabase', 409, { body: { disk_mib: 20_480 }, how: 'database whose disk could not be created' }),
  )
  const spare = (await see('createDatabase', 200, { body: { name: 'spare', engine: 'postgres' } })).body
  await see('deleteDatabase', 200, { params: { id: spare.id } })
}

export async function fleet({ see, ask, params, hosts }: World): Promise<void> {
  await see('listHosts', 200)
  const [first, second] = hosts
  params['host_id'] = first?.id ?? ''
  await see('getHost', 200)
  await see('cordonHost', 200)
  await see('uncordonHost', 200)
  await see('setHostLabels', 200, { body: { labels: { region: 'eu' } } })
  await see('listHostLabels', 200)
  const other = { params: { host_id: second?.id ?? '' } }
  // Wait, because VMs of earlier requests may not be placed on a host yet.
  const occupied = await until(
    async () => (await ask('listHosts', {})).body.find(({ vms }: { readonly vms: number }) => vms > 0)?.id as string,
    { what: 'a host with VMs' },
  )
  await see('removeHost', 409, { params: { host_id: occupied }, how: 'host with VMs' })
  await see('drainHost', 200, other)
  await see('uncordonHost', 200, other)
  await see('removeHost', 200, { ...other, query: { force: 'true' } })
}
