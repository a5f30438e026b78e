/**
 * Creates the resources of `lock-order.test.ts`, such as VMs with volumes and snapshots, and apps in several states.
 */
import { computeWorld } from '../compute.ts'
import { shortDeadlocks } from '../collide.ts'
import { testDatabase } from '../database.ts'
import { testLog } from '../log.ts'
import { connectDb } from '../../../src/db/connect.ts'
import { createSnapshot } from '../../../src/control/vms/index.ts'
import * as snapshots from '../../../src/control/vms/snapshot-store.ts'
import * as deployments from '../../../src/control/deployments/store.ts'
import * as vms from '../../../src/control/vms/store.ts'
import {
  attachVolume,
  createVolume,
  createVolumeSnapshot,
  findVolume,
  findVolumeSnapshot,
} from '../../../src/control/volumes/index.ts'

export interface Kept {
  readonly app: { readonly id: string; readonly name: string }
  readonly deploymentId: string
  readonly vmId: string
  readonly hostId: string
  readonly volumeIds: readonly [string, string]
  readonly volumeSnapshotId: string
  readonly name: string
}

/** @param txConnections number of connections for transactions of `db`, which detects deadlocks after 20 ms */
export async function lockWorld(txConnections: number) {
  const database = await testDatabase()
  await database.db.run(shortDeadlocks)
  const db = await connectDb({ url: database.url, log: testLog(), txConnections })
  const world = await computeWorld({}, database)
  const { projectId } = world
  const hosts = [await world.addHost({ vcpus: 1000 }), await world.addHost({ vcpus: 1000 })]
  let made = 0
  const volume = async () => (await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))).id
  const attach = (appId: string, volumeId: string, mountPoint: string) =>
    db.tx(tx => attachVolume(tx, { projectId, appId, volumeId, mountPoint, accessMode: 0, by: 'user' }))
  const appOfOne = async () => {
    const app = await world.app()
    await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
    return app
  }
  const mayIdle = (appId: string) => world.rows(`UPDATE app SET min_replicas = 0 WHERE id = $1 RETURNING id`, appId)
  /** Runs a VM with two volumes, and takes a VM snapshot with copies of both, and a snapshot of one volume. */
  const running = async (): Promise<Kept> => {
    const app = await appOfOne()
    const volumeIds = [await volume(), await volume()] as const
    // Attach the volumes in the reverse order of their ids, because the code under test has to sort them.
    await attach(app.id, volumeIds[1], '/data')
    await attach(app.id, volumeIds[0], '/more')
    const { id: deploymentId, vmIds } = await world.deploy(app)
    const vmId = vmIds[0]!
    await world.until(async () => (await vms.byId(db, vmId))?.healthy === true)
    const vm = (await vms.byId(db, vmId))!
    const [hostId, name] = [vm.hostId!, `s${++made}`]
    const id = await db.tx(tx => createSnapshot(tx, { ...vm, deploymentId, vmId, hostId, kind: 'user', name }))
    const { id: volumeSnapshotId } = await db.tx(tx => createVolumeSnapshot(tx, volumeIds[0], { name: 'n' }))
    await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
    await world.until(async () => (await findVolumeSnapshot(db, volumeSnapshotId))?.state === 'ready')
    if ((await snapshots.byId(db, id))?.disks.length !== 2) throw new Error('the snapshot lacks a copy of a volume')
    await mayIdle(app.id)
    return { app, deploymentId, vmId, hostId, volumeIds, volumeSnapshotId, name }
  }
  const [one, two] = [await running(), await running()]
  await world.rows(`UPDATE deployment SET want = 'stopped' WHERE id = $1 RETURNING id`, two.deploymentId)
  await world.until(async () => (await vms.byId(db, two.vmId)) === undefined)
  const waitingApp = await appOfOne()
  await attach(waitingApp.id, await volume(), '/data')
  const appOfPair = await world.app({ replicas: 2 })
  const pair = await world.deploy(appOfPair, { replicas: 2 })
  await world.until(async () => (await vms.byIds(db, pair.vmIds)).every(vm => vm.healthy))
  await mayIdle(appOfPair.id)
  const sleeper = await world.app()
  await world.rows(
    `UPDATE app SET scale_state = 'idle', scale_changed_at = now() - interval '1 hour' WHERE id = $1 RETURNING id`,
    sleeper.id,
  )
  const bedded = await world.app({ minReplicas: 0 })
  const slept = await world.deploy(bedded)
  await world.until(async () => (await deployments.byId(db, slept.id))?.phase === 'serving')
  await world.rows(`UPDATE app SET scale_state = 'idle' WHERE id = $1 RETURNING id`, bedded.id)
  await world.until(async () => {
    // Skip the time in which an app that is being suspended still serves its last requests.
    await world.rows(
      `UPDATE machine SET entered_at = now() - interval '10 seconds' WHERE id = $1 AND phase = 'suspending' RETURNING id`,
      slept.id,
    )
    return (await vms.byIds(db, slept.vmIds)).length === 0
  })
  await world.rows(
    `INSERT INTO budget (project_id, monthly_cents, state) VALUES ($1, 0, 'capped') RETURNING project_id`,
    projectId,
  )
  const forkApp = await appOfOne()
  return {
    db,
    world,
    hosts,
    one,
    /** A deployment of two VMs without volumes. */
    pair,
    /** Resources like those of `one`, except that the deployment is stopped and its VM is gone. */
    two,
    restHost: (await findVolume(db, two.volumeIds[0]))!.hostId!,
    runHost: one.hostId,
    /** Id of a volume that is not attached. */
    loose: await volume(),
    /** Id of a VM with a volume that waits for placement. */
    waitingVm: (await world.deploy(waitingApp)).vmIds[0]!,
    /** An idle app that is about to be suspended. */
    sleeper,
    /** A suspended app, with the snapshot that it resumes from. */
    bedded,
    /** Ids of all apps, in the order in which they must be locked. */
    appIds: (await world.rows<{ id: string }>(`SELECT id FROM app ORDER BY id`)).map(row => row.id),
    /** The app into which snapshots are forked. */
    forkApp,
  }
}
