/** Tests the workflows of volumes and their snapshots under every fault, and VMs with volumes. */
import { afterAll, describe, expect, it } from 'vitest'
import { runsAll } from '../../../test/support/all-examples.ts'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { newId } from '../../lib/ids.ts'
import { setVmWant } from '../vms/index.ts'
import * as attachments from './attach-store.ts'
import { markVolumeForDeletion } from './create.ts'
import {
  attachVolume,
  cloneVolume,
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  deleteVolumeSnapshot,
  detachVolume,
  findVolume,
  findVolumeSnapshot,
  fullVolumes,
  growVolume,
  listVolumeSnapshots,
  restoreVolume,
  scheduledSnapshots,
} from './index.ts'
import { setSchedule } from './schedule.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const host = await world.addHost()
const { volumes: stored, snapshots: kept } = host.storage

let made = 0
/** Creates an app that runs at most one VM. */
async function oneVmApp() {
  const app = await world.app()
  await db.run({ name: 'test.oneVm', text: 'UPDATE app SET max_replicas = 1 WHERE id = $1' }, [app.id])
  return app
}
const create = () => db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
const snapshotOf = (volumeId: string) => db.tx(tx => createVolumeSnapshot(tx, volumeId, { name: `s${++made}` }))
const isReady = async (id: string) => (await findVolume(db, id))?.state === 'ready'
const snapshotReady = async (id: string) => (await findVolumeSnapshot(db, id))?.state === 'ready'
/** Creates a volume on a host, and a complete snapshot of the volume; both have this content. */
async function placed(content = 'one') {
  const { id } = await create()
  const first = await snapshotOf(id)
  await world.until(() => snapshotReady(first.id))
  await db.tx(tx => deleteVolumeSnapshot(tx, first.id))
  const volume = stored.get(id)!
  volume.content = content
  const snapshot = await snapshotOf(id)
  await world.until(() => snapshotReady(snapshot.id))
  return { id, volume, snapshotId: snapshot.id }
}

const remove = ({ id }: { id: string }) => db.tx(tx => deleteVolume(tx, id))
const volumeCases = crashMatrix<{ id: string; snapshotId: string; rounds: number }>({
  db,
  workflow: world.workflows.volume,
  remove: ({ id }) => db.tx(tx => markVolumeForDeletion(tx, id)),
  makeSubject: async () => {
    const { id } = await create()
    const snapshot = await snapshotOf(id)
    return { id, snapshotId: snapshot.id, rounds: 0 }
  },
  advance: async (s, phase) => {
    await world.hostsMove()
    await world.run('volumeSnapshot')
    if (phase !== 'keeping') return
    if (!(await snapshotReady(s.snapshotId))) return
    s.rounds += 1
    if (s.rounds === 1) stored.get(s.id)!.content = 'changed'
    if (s.rounds === 2) await db.tx(tx => growVolume(tx, s.id, 96))
    if (s.rounds === 6) await db.tx(tx => restoreVolume(tx, s.id, s.snapshotId))
    if (s.rounds > 6 && (await isReady(s.id))) {
      expect(stored.get(s.id)).toMatchObject({ content: 'empty', sizeMib: 96 })
      expect(await findVolume(db, s.id)).toMatchObject({ sizeMib: 96, grownMib: 96 })
      await remove(s)
    }
  },
  check: async ({ id }) => {
    expect(stored.has(id)).toBe(false)
    expect([...kept.values()].filter(one => one.put.volumeId === id)).toEqual([])
    expect(await findVolume(db, id)).toBeUndefined()
    expect(await world.rows(`SELECT id FROM volume_snapshot WHERE volume_id = $1`, id)).toEqual([])
  },
})

describe('the crash matrix of the volume workflow, in which a volume is restored completely or not at all', () => {
  it('has a case for every phase with every fault', () =>
    expect(volumeCases.length).toBe(Object.keys(world.workflows.volume.phases).length * faults.length))
  it.each(volumeCases)('$name', ({ run }) => run())
})

const dropSnapshot = ({ id }: { id: string }) => db.tx(tx => deleteVolumeSnapshot(tx, id))
const snapshotCases = crashMatrix({
  db,
  workflow: world.workflows.volumeSnapshot,
  remove: dropSnapshot,
  makeSubject: async () => {
    const { id } = await create()
    const snapshot = await snapshotOf(id)
    return { id: snapshot.id, rounds: 0 }
  },
  advance: async (s, phase) => {
    await world.hostsMove()
    await world.run('volume')
    if (phase === 'keeping' && ++s.rounds > 2) await dropSnapshot(s)
  },
  check: async ({ id }) => {
    expect(kept.has(id)).toBe(false)
    expect(await findVolumeSnapshot(db, id)).toBeUndefined()
  },
})

describe('the crash matrix of the volume snapshot workflow', () => {
  it('has a case for every phase with every fault', () =>
    expect(snapshotCases.length).toBe(Object.keys(world.workflows.volumeSnapshot.phases).length * faults.length))
  it.each(snapshotCases)('$name', ({ run }) => run())
})

describe('scheduled snapshots of a volume', () => {
  const names = async (id: string) => (await listVolumeSnapshots(db, id)).map(one => one.name)
  const sweep = scheduledSnapshots({ db, log: world.deps.log })
  const round = async (at: string, signal = new AbortController().signal) => {
    await db.run({ name: 'test.back', text: `UPDATE volume SET scheduled_at = scheduled_at - interval '1 day'` })
    const counts = await sweep.run({ now: new Date(at), signal })
    await world.until(
      async () => (await world.rows(`SELECT id FROM volume_snapshot WHERE state = 'creating'`)).length === 0,
    )
    return counts
  }
  it('are taken when due, and replace the oldest scheduled snapshots, but none that a user has taken', async () => {
    const { id } = await placed()
    const [byHand] = await names(id)
    await db.tx(tx => setSchedule(tx, id, { everyMinutes: 60, keep: 2 }))
    for (const at of ['2026-01-01T00:00:00Z', '2026-01-01T01:00:00Z', '2026-01-01T02:00:00Z']) await round(at)
    await world.until(async () => (await names(id)).length === 3)
    expect(await names(id)).toEqual(['auto-20260101-0200', 'auto-20260101-0100', byHand])
    // The next snapshot is not due yet.
    expect(await sweep.run({ now: new Date(), signal: new AbortController().signal })).toMatchObject({ due: 0 })
    await db.tx(tx => setSchedule(tx, id, undefined))
    expect(await round('2026-01-01T03:00:00Z')).toMatchObject({ due: 0, taken: 0 })
  })
  it.each([
    [{ everyMinutes: 14, keep: 1 }, /every_minutes/],
    [{ everyMinutes: 60, keep: 0 }, /keep/],
    [{ everyMinutes: 60, keep: 101 }, /keep/],
  ])('cannot have the schedule %j', async (schedule, why) => {
    await expect(db.tx(tx => setSchedule(tx, newId(), schedule))).rejects.toThrow(why)
  })
})

describe('growing a volume', () => {
  const size = async (id: string) => {
    const { sizeMib, grownMib, error } = (await findVolume(db, id))!
    return { sizeMib, grownMib, error }
  }
  it('takes effect immediately if it has no host, otherwise when its host has grown it', async () => {
    const { id } = await placed()
    await db.tx(tx => growVolume(tx, id, 128))
    expect(await size(id)).toEqual({ sizeMib: 128, grownMib: 64, error: null })
    await world.until(async () => (await size(id)).grownMib === 128)
    expect(stored.get(id)?.sizeMib).toBe(128)
    const { id: nowhere } = await create()
    await db.tx(tx => growVolume(tx, nowhere, 128))
    expect(await size(nowhere)).toEqual({ sizeMib: 128, grownMib: 128, error: null })
  })

  it('leaves the size unchanged if the host fails, shows the reason, and can be retried', async () => {
    const { id, volume } = await placed()
    volume.failGrowth = 'the disk is full'
    await db.tx(tx => growVolume(tx, id, 128))
    await world.until(async () => (await size(id)).sizeMib === 64)
    expect(await size(id)).toEqual({ sizeMib: 64, grownMib: 64, error: 'not grown to 128 MiB: the disk is full' })
    delete volume.failGrowth
    await db.tx(tx => growVolume(tx, id, 96))
    await world.until(async () => (await size(id)).grownMib === 96)
    expect(await size(id)).toEqual({ sizeMib: 96, grownMib: 96, error: null })
  })

  it('is refused if the requested size is smaller, if it is being restored, or if its pool has no space', async () => {
    const { id, snapshotId } = await placed()
    await expect(db.tx(tx => growVolume(tx, id, 63))).rejects.toMatchObject({
      code: 'invalid_request',
      details: [{ field: 'size_mib', message: expect.stringContaining('at least 64') }],
    })
    await expect(db.tx(tx => growVolume(tx, id, 2 ** 21))).rejects.toMatchObject({ code: 'no_capacity' })
    await expect(db.tx(tx => growVolume(tx, newId(), 128))).rejects.toMatchObject({ code: 'not_found' })
    await db.tx(tx => restoreVolume(tx, id, snapshotId))
    await expect(db.tx(tx => growVolume(tx, id, 128))).rejects.toMatchObject({ code: 'operation_in_progress' })
    expect(await size(id)).toEqual({ sizeMib: 64, grownMib: 64, error: null })
    await world.until(() => isReady(id))
  })
})

describe('a volume that fills up', () => {
  const sweep = fullVolumes({ db })
  const reportAt = async (id: string, percent: number) => {
    await db.run(
      {
        name: 'test.fill',
        text: `UPDATE volume SET used_bytes = size_mib * 1048576.0::float8 * $2 / 100, measured_at = now() WHERE id = $1`,
      },
      [id, percent],
    )
    return sweep.run({ now: new Date(), signal: new AbortController().signal })
  }
  const known = async (id: string) =>
    (await world.rows<{ fullness: number }>(`SELECT fullness FROM volume WHERE id = $1`, id))[0]?.fullness

  it('causes a notification at 80 and one at 95 percent, and another only after its fullness has fallen 5 percentage points below that level', async () => {
    const { id } = await create()
    const reported: number[] = []
    for (const percent of [50, 81, 85, 78, 82, 96, 94, 97, 91, 60, 81])
      reported.push((await reportAt(id, percent)).reported ?? 0)
    expect(reported).toEqual([0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1])
    expect(await known(id)).toBe(80)
    // Only one of two concurrent sweeps notifies users.
    const both = await Promise.all([reportAt(id, 99), reportAt(id, 99)])
    expect((both[0].reported ?? 0) + (both[1].reported ?? 0)).toBe(1)
  })
})

describe('the content of a volume', () => {
  it('is replaced with that of the snapshot each time that a restore is requested', async () => {
    const { id, volume, snapshotId } = await placed('one')
    for (const change of ['two', 'three']) {
      volume.content = change
      await db.tx(tx => restoreVolume(tx, id, snapshotId))
      await world.until(() => isReady(id))
      expect(volume.content).toBe('one')
    }
  })

  it('is copied to a clone, which remains when the volume is deleted', async () => {
    const { id, snapshotId } = await placed('one')
    const clone = await db.tx(tx => cloneVolume(tx, snapshotId, { projectId, name: `c${++made}` }))
    await expect(db.tx(tx => deleteVolume(tx, id))).rejects.toMatchObject({ code: 'operation_in_progress' })
    await expect(db.tx(tx => deleteVolumeSnapshot(tx, snapshotId))).rejects.toMatchObject({
      code: 'operation_in_progress',
    })
    await world.until(() => isReady(clone.id))
    await db.tx(tx => deleteVolume(tx, id))
    await world.until(async () => (await findVolume(db, id)) === undefined)
    expect(stored.get(clone.id)?.content).toBe('one')
  })
})

describe('a VM with a volume', () => {
  const attach = (appId: string, volumeId: string, accessMode: 0 | 1 = 0) =>
    db.tx(tx => attachVolume(tx, { projectId, volumeId, appId, mountPoint: '/data', accessMode, by: 'user' }))
  const holders = (volumeId: string) =>
    world.hosts.flatMap(one =>
      [...one.vms.values()].filter(vm => vm.disks.some(disk => disk.volumeId === volumeId)).map(vm => vm.desired.vmId),
    )
  const active = async (deploymentId: string) =>
    (await world.rows(`SELECT id FROM app WHERE active_deployment_id = $1`, deploymentId)).length === 1

  it('gets the volume with a new attach generation, and no other VM gets the volume before this VM is gone', async () => {
    const { id } = await create()
    const app = await oneVmApp()
    await attach(app.id, id)
    const first = await world.deploy(app)
    const note = async () =>
      (
        await world.rows<{ note: string | null }>(
          `SELECT placement_note AS note FROM vm WHERE id = $1`,
          first.vmIds[0]!,
        )
      )[0]
    await world.until(async () => (await note())?.note?.includes('preparing the volumes') === true)
    await world.until(() => active(first.id))
    expect(await note(), 'the note is cleared after the wait').toEqual({ note: null })
    expect(holders(id)).toEqual(first.vmIds)
    expect(stored.get(id)?.generation).toBe(1)

    const second = await world.deploy(app)
    const most = { holders: 0 }
    await world.until(async () => {
      most.holders = Math.max(most.holders, holders(id).length)
      return active(second.id)
    })
    expect(most.holders).toBe(1)
    expect(holders(id)).toEqual(second.vmIds)
    expect(stored.get(id)?.generation).toBe(2)
  })

  it('releases the volume to a new deployment, and its deployment gets the volume back if the new deployment fails', async () => {
    const { id } = await create()
    const app = await oneVmApp()
    await attach(app.id, id)
    const good = await world.deploy(app)
    await world.until(() => active(good.id))
    host.behaviour.set('example/bad:1', 'crash')
    const bad = await world.deploy(app, { image: 'example/bad:1' })
    await world.until(
      async () =>
        (await world.rows(`SELECT id FROM deployment WHERE id = $1 AND outcome = 'failed'`, bad.id)).length === 1,
    )
    await world.until(
      async () => (await world.rows(`SELECT id FROM vm WHERE deployment_id = $1 AND healthy`, good.id)).length === 1,
    )
    expect(holders(id)).toHaveLength(1)
    expect(await active(good.id)).toBe(true)
  })

  it('is not placed while the host of its volume is cordoned, and its placement note gives the reason', async () => {
    const { id } = await create()
    const app = await oneVmApp()
    await attach(app.id, id)
    const { id: deploymentId } = await world.deploy(app)
    await world.until(() => active(deploymentId))
    const other = await world.addHost()
    const home = (await findVolume(db, id))!.hostId
    const vm = await world.rows<{ id: string }>(`SELECT id FROM vm WHERE deployment_id = $1`, deploymentId)
    await db.run({ name: 'test.cordon', text: 'UPDATE host SET cordoned = true WHERE id = $1' }, [home])
    await db.tx(tx => setVmWant(tx, vm[0]!.id, 'absent'))
    const note = async () =>
      (
        await world.rows<{ note: string | null }>(
          `SELECT placement_note AS note FROM vm WHERE deployment_id = $1 AND host_id IS NULL`,
          deploymentId,
        )
      )[0]?.note ?? ''
    await world.until(async () => (await note()).includes('volume elsewhere'))
    expect(await note()).toContain('1 host: cordoned')
    expect(other.vms.size).toBe(0)
    await db.run({ name: 'test.uncordon', text: 'UPDATE host SET cordoned = false WHERE id = $1' }, [home])
    await world.until(async () => holders(id).length === 1)
  })

  it('unmounts a volume that is being detached, and only then can the volume be attached to another app', async () => {
    const { id } = await create()
    const app = await oneVmApp()
    const { attachment } = await attach(app.id, id)
    const { id: deploymentId } = await world.deploy(app)
    await world.until(() => active(deploymentId))
    expect(await db.tx(tx => detachVolume(tx, attachment))).toBe('detaching')
    await expect(remove({ id })).rejects.toMatchObject({ code: 'volume_in_use' })
    await expect(attach((await oneVmApp()).id, id)).rejects.toMatchObject({ code: 'volume_in_use' })
    await world.until(async () => (await attachments.attachmentsOf(db, id)).length === 0)
    expect(holders(id)).toEqual([])
    expect(await active(deploymentId)).toBe(true)
    await remove({ id })
  })

  it('shares a read-only volume with other VMs, and no app can attach it read-write while it is shared', async () => {
    const { id } = await create()
    const apps = [await world.app({ replicas: 2 }), await world.app({ replicas: 2 })]
    for (const app of apps) await attach(app.id, id, 1)
    await expect(attach((await oneVmApp()).id, id, 0)).rejects.toMatchObject({ code: 'volume_in_use' })
    for (const app of apps) await world.deploy(app, { replicas: 2 })
    await world.until(async () => holders(id).length === 4)
    expect(new Set(world.hosts.flatMap(one => (one.storage.volumes.has(id) ? [one.id] : []))).size).toBe(1)
  })
})

describe('attaching a volume read-write', () => {
  it('succeeds for exactly one of several concurrent requests', async () => {
    const { id } = await create()
    const apps = await Promise.all(Array.from({ length: 8 }, () => oneVmApp()))
    for (let round = 0; round < 25; round++) {
      const tries = apps.slice(0, 2 + (round % 7)).map(app =>
        db
          .tx(tx =>
            attachVolume(tx, {
              projectId,
              volumeId: id,
              appId: app.id,
              mountPoint: '/data',
              accessMode: 0,
              by: 'user',
            }),
          )
          .catch((error: unknown) => error),
      )
      const answers = await Promise.all(tries)
      const won = answers.filter(answer => !(answer instanceof Error))
      expect(won).toHaveLength(1)
      for (const lost of answers.filter(answer => answer instanceof Error))
        expect(lost).toMatchObject({ code: 'volume_in_use' })
      const [attached] = await attachments.attachmentsOf(db, id)
      await db.tx(tx => detachVolume(tx, attached!))
    }
  })

  const rounds = runsAll ? 10_000 : 2_000
  it(`succeeds for exactly one of 2 to 8 concurrent database inserts, in each of ${rounds} rounds`, {
    timeout: 120_000,
  }, async () => {
    const { id } = await create()
    const apps = await Promise.all(Array.from({ length: 8 }, () => oneVmApp()))
    const lock = {
      name: 'test.race',
      text: `INSERT INTO volume_attachment (id, project_id, volume_id, app_id, mount_point, access_mode)
             VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT DO NOTHING`,
    }
    const free = { name: 'test.free', text: 'DELETE FROM volume_attachment WHERE volume_id = $1' }
    const volumes = [id, ...(await Promise.all(Array.from({ length: 24 }, create))).map(volume => volume.id)]
    const race = async (volumeId: string, n: number) => {
      const contenders = apps.slice(0, 2 + (n % 7))
      const won = await Promise.all(
        contenders.map(app => db.run(lock, [newId(), projectId, volumeId, app.id, `/${volumeId}`])),
      )
      expect(won.reduce((sum, one) => sum + one, 0)).toBe(1)
      expect(await db.run(free, [volumeId])).toBe(1)
    }
    await Promise.all(
      volumes.map(async (volumeId, lane) => {
        for (let n = 0; n < rounds / volumes.length; n++) await race(volumeId, n + lane)
      }),
    )
  })
})
