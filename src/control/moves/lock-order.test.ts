/**
 * once-is-enough. Whatever locks volumes, snapshots, moves, VMs and hosts does so in one order (docs/engine.md): each transaction against each
 * other one, stopped at each place at which another one can come between, on real PostgreSQL. None ends in a circle.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { alone, collide, crowd, type Work } from '../../../test/support/collide.ts'
import { shape } from '../../../test/support/compute.ts'
import { until } from '../../../test/support/wait.ts'
import { type Db, statement, type Tx } from '../../db/db.ts'
import type { AnyWorkflow } from '../../engine/workflow.ts'
import { createDeployment, lockDeployment } from '../deployments/index.ts'
import { idleApps, recordTraffic, wakeApp, wakeAppNow } from '../scaling/index.ts'
import { listHosts, loseHost, reserve, touchHosts } from '../hosts/index.ts'
import { lockLimits } from '../projects/index.ts'
import { holdSnapshot, putBack, startFork } from '../vm-operations/index.ts'
import { deleteSnapshot } from '../vm-operations/snapshots.ts'
import { keepBudget } from '../usage/sweep.ts'
import {
  abandonVmsOf,
  claimRunning,
  createSnapshot,
  lockSnapshot,
  lockVm,
  recordObserved,
  recordSnapshot,
  setBalloon,
} from '../vms/index.ts'
import { cancelMigration, chooseMove, coMovedOf, newestMigration, startMigration } from '../migrations/index.ts'
import type { Moving } from '../migrations/workflow.ts'
import { keepVolumes, settled } from '../migrations/volumes.ts'
import * as migrations from '../migrations/store.ts'
import { createPlacer } from '../vms/placer.ts'
import * as snapshots from '../vms/snapshot-store.ts'
import * as vms from '../vms/store.ts'
import {
  attachmentsOfApp,
  attachVolume,
  cloneVolume,
  createVolumeSnapshot,
  deleteVolumeSnapshot,
  detachVolume,
  growVolume,
  lockRetained,
  recordUsages,
  recordVolumeSnapshot,
  restoreVolume,
  volumeContents,
} from '../volumes/index.ts'
import { moveVolume } from '../volumes/move.ts'
import { settleGroup } from './group.ts'
import { cancelMove, finishCopies, newestMove } from './index.ts'
import { liveSnapshotMoves } from './snapshot-store.ts'
import { type Kept, lockWorld } from '../../../test/support/control/moves.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })
const [times, atOnce] = [400, 8]
const locks = await lockWorld(atOnce)
const { db, world, hosts, one, two, pair, restHost, runHost, loose, waitingVm, forkApp, sleeper, bedded, appIds } =
  locks
afterAll(async () => {
  await db.close()
  await world[Symbol.asyncDispose]()
})
const { projectId, deps, workflows } = world
const other = (id: string) => hosts.find(host => host.id !== id)!
const rowOf = async (tx: Tx, id: string) => (await listHosts(tx, 3600)).find(host => host.id === id)!

/** For what makes its transactions itself. */
const within = (tx: Tx): Db => ({ ...db, ...tx, tx: work => work(tx) })
/** As `lockedJob` of the operations on VMs. */
const locked = async (tx: Tx, { app, deploymentId }: Kept) => {
  const d = await lockDeployment(tx, projectId, app.name, deploymentId)
  if (!d) throw new Error('it is not there')
  return d
}
const fork =
  (of: Kept): Work =>
  async tx => {
    await locked(tx, of)
    const snapshot = (await holdSnapshot(tx, of.deploymentId, of.name))!
    const shaped = { ...shape, ipv6Prefix: 'fd00:1:2:3::/64' }
    await startFork(tx, shaped, snapshot, await lockRetained(tx, snapshot), { app: forkApp, replicas: 1 })
  }
const restore =
  (of: Kept): Work =>
  async tx => {
    await locked(tx, of)
    await putBack(tx, (await holdSnapshot(tx, of.deploymentId, of.name))!)
  }
const drop =
  (of: Kept): Work =>
  async tx => {
    await locked(tx, of)
    await deleteSnapshot(tx, of.deploymentId, of.name)
  }
async function migrate(tx: Tx): Promise<void> {
  const vm = (await vms.byId(tx, one.vmId))!
  const [source, target] = [await rowOf(tx, runHost), await rowOf(tx, other(runHost).id)]
  const choice = chooseMove(vm, source, target, await coMovedOf(tx, vm.id))
  if (!('plan' in choice) || !(await reserve(tx, target.id, vm))) throw new Error('it stays')
  const ends = { sourceHostId: source.id, targetHostId: target.id, method: choice.plan.method, withVolumes: true }
  await startMigration(tx, { ...vm, vmId: vm.id, ...ends }, choice.plan.volumes)
}
const detach =
  (volumeId: string): Work =>
  async tx => {
    const all = await attachmentsOfApp(tx, one.app.id)
    await tx.rows(lockApp, [one.app.id])
    await detachVolume(tx, all.find(each => each.volumeId === volumeId)!)
  }
const lockApp = statement('test.lockApp', 'SELECT id FROM app WHERE id = $1 FOR NO KEY UPDATE')

/** What a step of a machine writes, whatever the host says to it. */
const step =
  (workflow: AnyWorkflow, phase: string, id: string, change: object = {}): Work =>
  async tx => {
    const subject: object = { ...(await workflow.load(id)), ...change }
    const now = new Date()
    const moment = { subject, phase, attempt: 0, enteredAt: now, now, signal: new AbortController().signal }
    const next = await workflow.phases[phase]!(moment)
    if (!next.write) throw new Error(`nothing is written in ${phase}`)
    await Promise.all([workflow.hold?.(tx, subject), next.write(tx)])
  }

const observedOf = () => hosts.find(host => host.id === runHost)!.observed(one.vmId)
const always: Readonly<Record<string, Work>> = {
  'fork of a VM that runs': fork(one),
  'fork of volumes at rest': fork(two),
  'restore of a VM': restore(one),
  'end of a snapshot of a VM': drop(one),
  'end of a snapshot at rest': drop(two),
  'a volume is detached': detach(one.volumeIds[1]),
  'a volume is cloned': tx => cloneVolume(tx, one.volumeSnapshotId, { projectId, name: 'clone' }),
  'a volume grows': tx => growVolume(tx, two.volumeIds[1], 96),
  'a volume is kept': tx => createVolumeSnapshot(tx, one.volumeIds[0], { name: 'again' }),
  'a snapshot of a volume ends': tx => deleteVolumeSnapshot(tx, one.volumeSnapshotId),
  'the host of the VM is lost': async tx => {
    await tx.rows(loseNow, [runHost])
    await loseHost(tx, runHost, 0)
    await abandonVmsOf(tx, runHost)
  },
  'beats of the hosts': tx => touchHosts({ ...db, ...tx }, [hosts[1]!.id, hosts[0]!.id]),
  'usages of the volumes': tx =>
    recordUsages(
      { ...db, ...tx },
      runHost,
      [...two.volumeIds, ...one.volumeIds].reverse().map(volumeId => ({ volumeId, usedBytes: 1, snapshotBytes: 1 })),
    ),
  'the VM is seen': tx => recordObserved(tx, runHost, { ...observedOf(), healthy: false, restartCount: 9, disks: [] }),
  'the VM is removed': step(workflows.vm, 'removing', one.vmId, {
    want: 'absent',
    hostLost: true,
    drainSeconds: 0,
    takesVolumes: false,
  }),
  'the deployment stops': step(workflows.deployment, 'stopping', one.deploymentId),
  'the deployment has stopped': step(workflows.deployment, 'stopping', one.deploymentId, { vms: [], want: 'stopped' }),
  'two VMs stop': step(workflows.deployment, 'stopping', pair.id),
  'the later of them is seen': async tx => {
    const vmId = pair.vmIds.toSorted()[1]!
    const host = hosts.find(each => each.vms.has(vmId))!
    await recordObserved(tx, host.id, { ...host.observed(vmId), healthy: false, restartCount: 9 })
  },
  'the deployment fails': async tx => {
    const d = (await workflows.deployment.load(one.deploymentId))!
    const crashed = d.vms.map(vm => ({ ...vm, observedState: 'crashed' }))
    await step(workflows.deployment, 'serving', one.deploymentId, { vms: crashed })(tx)
  },
  'the volumes of the project go': tx => volumeContents.deleteAll(tx, projectId),
  'a budget is used up': async tx => {
    if ((await keepBudget(deps, tx, projectId, new Date())) !== 'capped') throw new Error('there is some left')
  },
  // What is one statement elsewhere: one that locks them in another order meets it halfway.
  'one app after another': async tx => {
    for (const id of appIds) await tx.rows(lockApp, [id])
  },
  'requests of many apps': tx =>
    recordTraffic(
      tx,
      appIds.toReversed().map(appId => ({ appId, ageMs: 0 })),
    ),
  'an app is woken': tx => wakeApp(tx, sleeper.id),
  'a request wakes an app': async tx => {
    if (!(await wakeAppNow(tx, bedded.id, { hostTimeoutSeconds: 3600, afterMs: 0 }))) throw new Error('not at once')
  },
  'a new version is deployed': async tx => {
    await tx.rows(lockApp, [one.app.id])
    await lockLimits(tx, projectId)
    const sizes = { ...shape, projectId, appId: one.app.id, replicas: 1, ipv6Prefix: 'fd00:1:2:3::/64' }
    await createDeployment(tx, { ...sizes, triggerSource: 'api' })
  },
}
const loseNow = statement('test.suspect', `UPDATE host SET suspected_at = now() - interval '1 hour' WHERE id = $1`)

const atRest: Readonly<Record<string, Work>> = {
  ...always,
  'apps fall asleep': async tx => {
    const sweep = idleApps({ db: within(tx), config: { ...deps.config, idleSeconds: 0 } })
    const { idle } = await sweep.run({ signal: new AbortController().signal, now: new Date() })
    if (idle !== 2) throw new Error(`${idle} of them`)
  },
  'the VM is kept': async tx => {
    const d = await locked(tx, one)
    await lockVm(tx, one.vmId)
    await newestMigration(tx, d.id)
    await createSnapshot(tx, { ...d, deploymentId: d.id, vmId: one.vmId, hostId: runHost, kind: 'user', name: 'more' })
  },
  'a volume is attached to a VM that runs': async tx => {
    const d = await locked(tx, one)
    const request = { projectId, appId: one.app.id, deploymentId: d.id, volumeId: loose, mountPoint: '/loose' }
    await attachVolume(tx, { ...request, accessMode: 0, by: 'user' })
    if (await claimRunning(tx, one.vmId, runHost, loose)) throw new Error('refused')
  },
  'memory of the VM is taken': async tx => {
    const d = await locked(tx, one)
    await setBalloon(tx, d.id, 256)
  },
  'a volume at rest is put back': tx => restoreVolume(tx, two.volumeIds[0], two.volumeSnapshotId),
  'volumes at rest begin to move': async tx =>
    moveVolume(tx, two.volumeIds[1], await rowOf(tx, other(restHost).id), await rowOf(tx, restHost)),
  'somebody moves the VM': async tx => {
    await locked(tx, one)
    await migrate(tx)
  },
  'a drain moves the VM': async tx => {
    await workflows.deployment.hold?.(tx, (await workflows.deployment.load(one.deploymentId))!)
    await migrate(tx)
  },
  'a VM with a volume gets its place': async tx => {
    const place = createPlacer({ ...deps, db: within(tx) })
    const placed = await place((await vms.byId(tx, waitingVm))!)
    if (placed.is !== 'placed') throw new Error(placed.is)
  },
  'a snapshot of the VM is seen': async tx =>
    recordSnapshot(tx, runHost, {
      ...hosts
        .find(host => host.id === runHost)!
        .snapshot((await snapshots.byName(tx, one.deploymentId, one.name))!.id),
    }),
  'a snapshot of a volume is seen': tx =>
    recordVolumeSnapshot(tx, runHost, hosts.find(host => host.id === runHost)!.storage.snapshot(one.volumeSnapshotId)),
}

/**
 * Each against itself and those after it: where the one that stops is does not matter.
 * @returns where two waited for each other
 */
async function circlesOf(name: string, works: Readonly<Record<string, Work>>, mayRefuse = false): Promise<string[]> {
  const work = works[name]!
  const { locking, ...end } = await alone(db, work)
  // One that comes to nothing would meet nobody.
  if (!mayRefuse) expect([end, locking.length > 0]).toEqual([{ is: 'through' }, true])
  const circles: string[] = []
  const names = Object.keys(works)
  for (const each of names.slice(names.indexOf(name)))
    for (const place of await collide(db, work, works[each]!, locking.length))
      circles.push(`${name} / ${each}, after ${place}`)
  return circles
}

let found = 0
it('finds a circle where there is one', async () => {
  const wrong: Work = async tx => {
    await locked(tx, two)
    await lockRetained(tx, (await lockSnapshot(tx, two.deploymentId, two.name))!)
  }
  const move = atRest['volumes at rest begin to move']!
  found = (await circlesOf('wrong', { wrong, move })).length
  expect(found).toBeGreaterThan(0)
})

describe('while nothing moves', () => {
  it.each(Object.keys(atRest))('%s', async name => expect(await circlesOf(name, atRest)).toEqual([]))
  it('all at once', async () => expect(await crowd(db, atRest, { times, atOnce })).toEqual([]))
})

describe('while volumes, snapshots and a VM move', () => {
  const migration = async (tx: Tx): Promise<Moving> => {
    const m = (await migrations.byId(tx, (await newestMigration(tx, one.deploymentId))!.id))!
    return { ...m, row: undefined, vm: undefined, volumes: [], snapshots: [] }
  }
  const groupId = async (tx: Tx) => (await newestMove(tx, two.volumeIds[0]))!.groupId!
  const moving: Readonly<Record<string, Work>> = {
    'volumes at rest have moved': async tx => settleGroup(tx, await groupId(tx)),
    'the VM has moved': async tx => settled(tx, await migration(tx)),
    'the move of volumes is given up': async tx => cancelMove(tx, (await newestMove(tx, two.volumeIds[1]))!.id),
    'somebody gives up the move of the VM': async tx => {
      await locked(tx, one)
      await cancelMigration(tx, (await migration(tx)).id)
    },
    'the volumes of the VM stay': async tx => keepVolumes(tx, await migration(tx)),
    'the VM has written all': async tx => finishCopies(tx, (await migration(tx)).id),
    'a volume is copied on': async tx =>
      step(workflows.volumeMove, 'copying', (await newestMove(tx, two.volumeIds[0]))!.id, { state: 'copying' })(tx),
    'a snapshot is copied on': async tx =>
      step(workflows.snapshotMove, 'copying', await moveOf(two), { state: 'copying' })(tx),
    'the move of a snapshot is given up': async tx => step(workflows.snapshotMove, 'cancelling', await moveOf(one))(tx),
    'a snapshot does not move after all': async tx =>
      step(workflows.snapshotMove, 'cancelling', await moveOf(two), { state: 'cancelling', sourceRemoved: true })(tx),
    'a volume does not move after all': async tx =>
      step(workflows.volumeMove, 'cancelling', (await newestMove(tx, two.volumeIds[1]))!.id, {
        state: 'cancelling',
        sourceRemoved: true,
      })(tx),
  }
  const moveOf = async ({ deploymentId, name }: Kept) =>
    (await liveSnapshotMoves(db, (await snapshots.byName(db, deploymentId, name))!.id))[0]!

  beforeAll(async () => {
    await db.tx(atRest['volumes at rest begin to move']!)
    await db.tx(atRest['somebody moves the VM']!)
    // As far as they get without each other.
    for (let round = 0; round < 8; round++) {
      await world.run('snapshotMove')
      await world.hostsMove()
    }
    const there = `UPDATE volume_move SET uri = '', state = CASE how WHEN 'brought' THEN 'copying' ELSE 'complete' END`
    expect(await world.rows(`${there} WHERE ended_at IS NULL RETURNING id`)).toHaveLength(4)
    const complete = await world.rows(`SELECT FROM vm_snapshot_move WHERE state = 'complete'`)
    expect(complete).toHaveLength(2)
    await world.rows(`UPDATE migration SET state = 'copying', uri = '' RETURNING id`)
  })
  it.each(Object.keys(moving))('%s', async name => expect(await circlesOf(name, { ...moving, ...always })).toEqual([]))
  it.each(Object.keys(always))('%s', async name => expect(await circlesOf(name, always, true)).toEqual([]))
  it('all at once', async () => expect(await crowd(db, { ...moving, ...always }, { times, atOnce })).toEqual([]))
})

it('and PostgreSQL has counted no other', async () => {
  const counted = statement<{ deadlocks: number }>(
    'test.deadlocks',
    'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
  )
  // A session tells what it has counted when it ends.
  await db.close()
  const count = async () => (await world.db.one(counted)).deadlocks
  await until(async () => (await count()) >= found, { what: 'the sessions have told' })
  expect(await count()).toBe(found)
})
