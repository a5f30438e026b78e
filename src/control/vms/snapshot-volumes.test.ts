/**
 * Tests snapshots of VMs with volumes under every fault: the guest's memory and the volume's content stay consistent.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { idleApps, wakeApp } from '../scaling/index.ts'
import {
  attachVolume,
  createVolume,
  createVolumeSnapshot,
  findVolumeSnapshot,
  listVolumeSnapshots,
} from '../volumes/index.ts'
import { createSnapshot, dropSnapshot, pokeVm, restoreVm } from './index.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'

const world = await computeWorld({ idleSeconds: 0 })
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const host = await world.addHost()
let made = 0

async function withVolume(minReplicas = 1) {
  const app = await world.app({ minReplicas })
  await world.rows(`UPDATE app SET max_replicas = 1 WHERE id = $1 RETURNING id`, app.id)
  const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
  const mount = { mountPoint: '/data', accessMode: 0, by: 'user' } as const
  await db.tx(tx => attachVolume(tx, { projectId, appId: app.id, volumeId, ...mount }))
  const { id: deploymentId, vmIds } = await world.deploy(app)
  const vmId = vmIds[0]!
  await world.until(async () => (await store.byId(db, vmId))?.healthy === true)
  return { app, volumeId, deploymentId, vmId, volume: host.storage.volumes.get(volumeId)! }
}
const one = await withVolume()
const healthy = async () => (await store.byId(db, one.vmId))?.healthy === true

async function snapshot() {
  const vm = (await store.byId(db, one.vmId))!
  const of = { deploymentId: one.deploymentId, vmId: vm.id, hostId: host.id }
  const id = await db.tx(tx => createSnapshot(tx, { ...vm, ...of, kind: 'user', name: `s${++made}` }))
  return { id, rounds: 0 }
}
const ready = async () => {
  const { id } = await snapshot()
  await world.until(async () => (await snapshots.byId(db, id))?.state === 'ready')
  return id
}
const restore = (id: string, before = `before-${++made}`) =>
  db.tx(async tx => {
    const kept = await createVolumeSnapshot(tx, one.volumeId, { name: before, kind: 'restore' })
    await restoreVm(tx, one.vmId, id)
    await pokeVm(tx, one.vmId)
    return kept.id
  })

const cases = crashMatrix({
  db,
  workflow: world.workflows.snapshot,
  makeSubject: snapshot,
  remove: async ({ id }) => void (await db.tx(tx => dropSnapshot(tx, id))),
  advance: async (s, phase) => {
    await world.hostsMove()
    if (phase === 'keeping') expect((await snapshots.byId(db, s.id))?.disks).toMatchObject([{ copied: true }])
    if (phase === 'keeping' && ++s.rounds > 2) await db.tx(tx => dropSnapshot(tx, s.id))
  },
  check: async ({ id }) => {
    expect(host.snapshots.has(id)).toBe(false)
    expect(await healthy()).toBe(true)
  },
})

describe('the crash matrix of a VM snapshot with a volume', () => {
  it('has a case for every phase with every fault', () =>
    expect(cases.length).toBe(Object.keys(world.workflows.snapshot.phases).length * faults.length))
  it.each(cases)('$name', ({ run }) => run())
})

describe('restoring a VM with a volume from a snapshot', () => {
  it('restores the volume, saves its previous content in a volume snapshot, and does not undo later writes', async () => {
    one.volume.content = 'then'
    const id = await ready()
    one.volume.content = 'now'
    const keptId = await restore(id)
    await world.until(async () => (await findVolumeSnapshot(db, keptId))?.state === 'ready' && (await healthy()))
    await world.until(async () => host.vms.get(one.vmId)?.record.origin?.startsWith(id) === true && (await healthy()))
    expect(one.volume.content).toBe('then')
    expect(host.storage.snapshots.get(keptId)?.content).toBe('now')
    one.volume.content = 'later'
    host.powerCut()
    await world.until(async () => host.vms.get(one.vmId)?.healthy === true && (await healthy()))
    expect(one.volume.content).toBe('later')
  })

  it('boots the VM with the current content of its volume if that content could not be saved before the restore', async () => {
    const id = await ready()
    one.volume.content = 'precious'
    const keptId = await restore(id)
    host.storage.snapshots.set(keptId, {
      put: { snapshotId: keptId, volumeId: one.volumeId, pool: 'local', generation: 1, want: 'present' },
      state: 'failed',
      content: '',
    })
    await world.until(async () => (await findVolumeSnapshot(db, keptId))?.state === 'failed' && (await healthy()))
    expect((await store.byId(db, one.vmId))?.fromSnapshotId).toBeNull()
    expect(one.volume.content).toBe('precious')
    expect((await listVolumeSnapshots(db, one.volumeId)).some(each => each.kind === 'restore')).toBe(true)
  })
})

describe('an app with a volume that scales to zero', () => {
  const state = async ({ id }: TestApp) =>
    (await world.rows<{ state: string }>(`SELECT scale_state AS state FROM app WHERE id = $1`, id))[0]?.state
  const idle = () => idleApps(world.deps).run({ signal: new AbortController().signal, now: new Date() })
  const awake = async (app: TestApp) => {
    await db.tx(tx => wakeApp(tx, app.id))
    await world.until(async () => (await state(app)) === 'active')
    return [...host.vms.values()].find(vm => vm.desired.spec.appId === app.id)!
  }

  it('resumes from its memory snapshot, or boots if the volume was written to while the app was asleep', async () => {
    const { app, volume, vmId, volumeId } = await withVolume(0)
    const { memory } = host.vms.get(vmId)!
    volume.content = 'asleep'
    const asleep = async () => {
      await idle()
      await world.until(async () => (await state(app)) === 'scaled_to_zero')
      await world.until(async () => (await world.rows(`SELECT id FROM vm WHERE app_id = $1`, app.id)).length === 0)
    }
    await asleep()
    const woken = await awake(app)
    expect(woken.memory).toBe(memory)
    expect(volume.content).toBe('asleep')
    await asleep()
    // Raise the attach generation, as every VM that writes to the volume and every restore of the volume does.
    await world.rows(`UPDATE volume SET attach_generation = attach_generation + 1 WHERE id = $1 RETURNING id`, volumeId)
    volume.content = 'written by another'
    expect((await awake(app)).memory).not.toBe(memory)
    expect(volume.content).toBe('written by another')
    await world.deploymentsEnd(app)
  })

  it('keeps running if it is woken before its VM is removed', async () => {
    const { app, vmId } = await withVolume(0)
    await idle()
    await world.until(async () => host.vms.get(vmId)?.record.keptFor !== undefined)
    expect(host.vms.get(vmId)?.state).toBe('paused')
    const woken = await awake(app)
    await world.until(async () => woken.healthy)
    expect(woken.state).toBe('running')
    await world.deploymentsEnd(app)
  })
})
