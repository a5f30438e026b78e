/**
 * Tests that every transaction that locks volumes, snapshots, moves, VMs and hosts follows the lock order of
 * docs/engine.md. Runs each pair of transactions on real PostgreSQL, pauses one at every point where the other can
 * interleave, and expects no deadlock. Not repeated on the distribution's PostgreSQL.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { itInAll, runsAll } from '../../../test/support/all-examples.ts'
import { alone, collide, crowd, type Work } from '../../../test/support/collide.ts'
import { shape } from '../../../test/support/compute.ts'
import { until } from '../../../test/support/wait.ts'
import { type Db, statement, type Tx } from '../../db/db.ts'
import type { AnyWorkflow } from '../../engine/workflow.ts'
import { createDeployment, lockDeployment } from '../deployments/index.ts'
import { idleApps, recordTraffic, wakeApp, wakeAppNow } from '../scaling/index.ts'
import { listHosts, loseHost, reserve, touchHosts } from '../hosts/index.ts'
import { lockLimits } from '../projects/index.ts'
import { holdSnapshot, requestRestore, startFork } from '../vm-operations/index.ts'
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

/** Returns a database for code that opens its own transactions: those become part of the given transaction. */
const within = (tx: Tx): Db => ({ ...db, ...tx, tx: work => work(tx) })
/** Locks the deployment as `lockedJob` does, which the API operations on VMs use. */
const locked = async (tx: Tx, { app, deploymentId }: Kept) => {
  const d = await lockDeployment(tx, projectId, app.name, deploymentId)
  if (!d) throw new Error('the deployment does not exist')
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
    await requestRestore(tx, (await holdSnapshot(tx, of.deploymentId, of.name))!)
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
  if (!('plan' in choice) || !(await reserve(tx, target.id, vm))) throw new Error('the VM cannot move')
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

/** Runs the database writes of a workflow step, without requests to a host. */
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
  'fork of a running VM': fork(one),
  'fork of detached volumes': fork(two),
  'restore of a VM': restore(one),
  'deletion of a snapshot of a VM': drop(one),
  'deletion of a snapshot of a removed VM': drop(two),
  'detachment of a volume': detach(one.volumeIds[1]),
  'clone of a volume': tx => cloneVolume(tx, one.volumeSnapshotId, { projectId, name: 'clone' }),
  'growth of a volume': tx => growVolume(tx, two.volumeIds[1], 96),
  'snapshot of a volume': tx => createVolumeSnapshot(tx, one.volumeIds[0], { name: 'again' }),
  'deletion of a snapshot of a volume': tx => deleteVolumeSnapshot(tx, one.volumeSnapshotId),
  "loss of the VM's host": async tx => {
    await tx.rows(loseNow, [runHost])
    await loseHost(tx, runHost, 0)
    await abandonVmsOf(tx, runHost)
  },
  'heartbeats of the hosts': tx => touchHosts({ ...db, ...tx }, [hosts[1]!.id, hosts[0]!.id]),
  'usage reports of the volumes': tx =>
    recordUsages(
      { ...db, ...tx },
      runHost,
      [...two.volumeIds, ...one.volumeIds].reverse().map(volumeId => ({ volumeId, usedBytes: 1, snapshotBytes: 1 })),
    ),
  'observation of the VM': tx =>
    recordObserved(tx, runHost, { ...observedOf(), healthy: false, restartCount: 9, disks: [] }),
  'removal of the VM': step(workflows.vm, 'removing', one.vmId, {
    want: 'absent',
    hostLost: true,
    drainSeconds: 0,
    takesVolumes: false,
  }),
  'stop of the deployment': step(workflows.deployment, 'stopping', one.deploymentId),
  'end of the stopped deployment': step(workflows.deployment, 'stopping', one.deploymentId, {
    vms: [],
    want: 'stopped',
  }),
  'stop of two VMs': step(workflows.deployment, 'stopping', pair.id),
  'observation of the later of them': async tx => {
    const vmId = pair.vmIds.toSorted()[1]!
    const host = hosts.find(each => each.vms.has(vmId))!
    await recordObserved(tx, host.id, { ...host.observed(vmId), healthy: false, restartCount: 9 })
  },
  'failure of the deployment': async tx => {
    const d = (await workflows.deployment.load(one.deploymentId))!
    const crashed = d.vms.map(vm => ({ ...vm, observedState: 'crashed' }))
    await step(workflows.deployment, 'serving', one.deploymentId, { vms: crashed })(tx)
  },
  "deletion of the project's volumes": tx => volumeContents.deleteAll(tx, projectId),
  'exhausted budget': async tx => {
    if ((await keepBudget(deps, tx, projectId, new Date())) !== 'capped') throw new Error('the budget is not exhausted')
  },
  // Locks all apps, one by one in the agreed order. Other code locks several apps in one statement; with another order,
  // it would deadlock with this.
  'locks on one app after another': async tx => {
    for (const id of appIds) await tx.rows(lockApp, [id])
  },
  'traffic of many apps': tx =>
    recordTraffic(
      tx,
      appIds.toReversed().map(appId => ({ appId, ageMs: 0 })),
    ),
  'wake of an app': tx => wakeApp(tx, sleeper.id),
  'wake of an app by a request': async tx => {
    if (!(await wakeAppNow(tx, bedded.id, { hostTimeoutSeconds: 3600, afterMs: 0 })))
      throw new Error('the wake needs the workflows')
  },
  'deployment of a new version': async tx => {
    await tx.rows(lockApp, [one.app.id])
    await lockLimits(tx, projectId)
    const sizes = { ...shape, projectId, appId: one.app.id, replicas: 1, ipv6Prefix: 'fd00:1:2:3::/64' }
    await createDeployment(tx, { ...sizes, triggerSource: 'api' })
  },
}
const loseNow = statement('test.suspect', `UPDATE host SET suspected_at = now() - interval '1 hour' WHERE id = $1`)

const withoutVms: Readonly<Record<string, Work>> = {
  ...always,
  'apps scale to zero': async tx => {
    const sweep = idleApps({ db: within(tx), config: { ...deps.config, idleSeconds: 0 } })
    const { idle } = await sweep.run({ signal: new AbortController().signal, now: new Date() })
    if (idle !== 2) throw new Error(`${idle} of them`)
  },
  'snapshot of the VM': async tx => {
    const d = await locked(tx, one)
    await lockVm(tx, one.vmId)
    await newestMigration(tx, d.id)
    await createSnapshot(tx, { ...d, deploymentId: d.id, vmId: one.vmId, hostId: runHost, kind: 'user', name: 'more' })
  },
  'attachment of a volume to a running VM': async tx => {
    const d = await locked(tx, one)
    const request = { projectId, appId: one.app.id, deploymentId: d.id, volumeId: loose, mountPoint: '/loose' }
    await attachVolume(tx, { ...request, accessMode: 0, by: 'user' })
    if (await claimRunning(tx, one.vmId, runHost, loose)) throw new Error('refused')
  },
  'reclaimed memory of the VM': async tx => {
    const d = await locked(tx, one)
    await setBalloon(tx, d.id, 256)
  },
  'restore of a detached volume': tx => restoreVolume(tx, two.volumeIds[0], two.volumeSnapshotId),
  'move of detached volumes': async tx =>
    moveVolume(tx, two.volumeIds[1], await rowOf(tx, other(restHost).id), await rowOf(tx, restHost)),
  'move of the VM by a user': async tx => {
    await locked(tx, one)
    await migrate(tx)
  },
  'move of the VM by a drain': async tx => {
    await workflows.deployment.hold?.(tx, (await workflows.deployment.load(one.deploymentId))!)
    await migrate(tx)
  },
  'placement of a VM with a volume': async tx => {
    const place = createPlacer({ ...deps, db: within(tx) })
    const placed = await place((await vms.byId(tx, waitingVm))!)
    if (placed.is !== 'placed') throw new Error(placed.is)
  },
  'observation of a snapshot of the VM': async tx =>
    recordSnapshot(tx, runHost, {
      ...hosts
        .find(host => host.id === runHost)!
        .snapshot((await snapshots.byName(tx, one.deploymentId, one.name))!.id),
    }),
  'observation of a snapshot of a volume': tx =>
    recordVolumeSnapshot(tx, runHost, hosts.find(host => host.id === runHost)!.storage.snapshot(one.volumeSnapshotId)),
}

/**
 * Runs the named transaction against itself and against each later one of the list. The named transaction is paused
 * before each of its statements. Pausing the other one would find the same deadlocks, so each pair runs once.
 * @returns the pairs that deadlocked, and where
 */
async function circlesOf(name: string, works: Readonly<Record<string, Work>>, mayRefuse = false): Promise<string[]> {
  const work = works[name]!
  const { locking, ...end } = await alone(db, work)
  // Each transaction must first succeed alone and take locks. If it failed before its first lock, it could not
  // deadlock, and the test would prove nothing.
  if (!mayRefuse) expect([end, locking.length > 0]).toEqual([{ is: 'through' }, true])
  const circles: string[] = []
  const names = Object.keys(works)
  for (const each of names.slice(names.indexOf(name)))
    for (const place of await collide(db, work, works[each]!, locking.length))
      circles.push(`${name} / ${each}, after ${place}`)
  return circles
}

/**
 * Transactions that take many locks. In `npm test` only these run: each against itself and all later ones, and the
 * first of each list against all.
 */
const broadest: readonly string[] = [
  ...['fork of a running VM', 'restore of a VM', "loss of the VM's host", 'observation of the VM', 'removal of the VM'],
  ...['completion of detached volumes', "completion of the VM's migration", 'cancellation of a move of volumes'],
]
const testedOf = (works: Readonly<Record<string, Work>>) =>
  Object.keys(works).filter(name => runsAll || broadest.includes(name))

let found = 0
it('two transactions with opposite lock orders are reported as a deadlock', async () => {
  const wrong: Work = async tx => {
    await locked(tx, two)
    await lockRetained(tx, (await lockSnapshot(tx, two.deploymentId, two.name))!)
  }
  const move = withoutVms['move of detached volumes']!
  found = (await circlesOf('wrong', { wrong, move })).length
  expect(found).toBeGreaterThan(0)
})

describe('while no moves are in progress', () => {
  it.each(testedOf(withoutVms))('no deadlock between "%s" and any other transaction', async name =>
    expect(await circlesOf(name, withoutVms)).toEqual([]),
  )
  // Not in `npm test`: the pairs above, and the same test while moves are in progress, cover this.
  itInAll('no two of the tested transactions deadlock when they run concurrently', async () =>
    expect(await crowd(db, withoutVms, { times, atOnce })).toEqual([]),
  )
})

describe('while moves of volumes, snapshots and a VM are in progress', () => {
  const migration = async (tx: Tx): Promise<Moving> => {
    const m = (await migrations.byId(tx, (await newestMigration(tx, one.deploymentId))!.id))!
    return { ...m, row: undefined, vm: undefined, volumes: [], snapshots: [] }
  }
  const groupId = async (tx: Tx) => (await newestMove(tx, two.volumeIds[0]))!.groupId!
  const moving: Readonly<Record<string, Work>> = {
    'completion of detached volumes': async tx => settleGroup(tx, await groupId(tx)),
    "completion of the VM's migration": async tx => settled(tx, await migration(tx)),
    'cancellation of a move of volumes': async tx => cancelMove(tx, (await newestMove(tx, two.volumeIds[1]))!.id),
    "cancellation of the VM's migration by a user": async tx => {
      await locked(tx, one)
      await cancelMigration(tx, (await migration(tx)).id)
    },
    'cancellation of the volume moves of a migration': async tx => keepVolumes(tx, await migration(tx)),
    "final copy of the VM's volumes": async tx => finishCopies(tx, (await migration(tx)).id),
    'copy progress of a volume': async tx =>
      step(workflows.volumeMove, 'copying', (await newestMove(tx, two.volumeIds[0]))!.id, { state: 'copying' })(tx),
    'copy progress of a snapshot': async tx =>
      step(workflows.snapshotMove, 'copying', await moveOf(two), { state: 'copying' })(tx),
    "cancellation of a snapshot's move": async tx => step(workflows.snapshotMove, 'cancelling', await moveOf(one))(tx),
    'end of a cancelled snapshot move': async tx =>
      step(workflows.snapshotMove, 'cancelling', await moveOf(two), { state: 'cancelling', sourceRemoved: true })(tx),
    'end of a cancelled volume move': async tx =>
      step(workflows.volumeMove, 'cancelling', (await newestMove(tx, two.volumeIds[1]))!.id, {
        state: 'cancelling',
        sourceRemoved: true,
      })(tx),
  }
  const moveOf = async ({ deploymentId, name }: Kept) =>
    (await liveSnapshotMoves(db, (await snapshots.byName(db, deploymentId, name))!.id))[0]!

  beforeAll(async () => {
    await db.tx(withoutVms['move of detached volumes']!)
    await db.tx(withoutVms['move of the VM by a user']!)
    // Let the snapshot moves advance until they wait for the rest of their move group.
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
  it.each(testedOf(moving))('no deadlock between "%s" and any other transaction', async name =>
    expect(await circlesOf(name, { ...moving, ...always })).toEqual([]),
  )
  // Not in `npm test`: pairs of these without moves, and the concurrent test below, cover this.
  itInAll.each(Object.keys(always))('no deadlock between "%s" and any other transaction', async name =>
    expect(await circlesOf(name, always, true)).toEqual([]),
  )
  it('no two of the tested transactions deadlock when they run concurrently', async () =>
    expect(await crowd(db, { ...moving, ...always }, { times, atOnce })).toEqual([]))
})

it('PostgreSQL has counted no deadlocks except the one that the test provoked', async () => {
  const counted = statement<{ deadlocks: number }>(
    'test.deadlocks',
    'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()',
  )
  // PostgreSQL adds a session's counters to its statistics when the session ends.
  await db.close()
  const count = async () => (await world.db.one(counted)).deadlocks
  await until(async () => (await count()) >= found, { what: "the sessions' counters are reported" })
  expect(await count()).toBe(found)
})
