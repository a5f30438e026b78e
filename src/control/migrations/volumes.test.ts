/**
 * Crash matrix (each phase with each fault) of migrating a VM with a volume: in the end the VM runs exactly once, on
 * the host of its volume, the volume has every write, and nothing is left on the other host.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { type CrashCase, crashMatrix, everySecond, faults } from '../../../test/support/crash-matrix.ts'
import type { SimHost } from '../../../test/support/sim-host.ts'
import { until } from '../../../test/support/wait.ts'
import type { Tx } from '../../db/db.ts'
import { cordon, listHosts, reserve } from '../hosts/index.ts'
import { finishCopies, lockVolumes } from '../moves/index.ts'
import { attachVolume, createVolume, createVolumeSnapshot, deleteVolume, findVolume } from '../volumes/index.ts'
import { claimRunning, setVmWant } from '../vms/index.ts'
import { cancelMigration, chooseMove, coMovedOf, moveObstacle, startMigration } from '../migrations/index.ts'
import * as migrations from './store.ts'
import { diskThere, settled } from './volumes.ts'
import * as store from '../vms/store.ts'

const live = await worldOf(true)
const cold = await worldOf(false)
afterAll(async () => {
  for (const { world } of [live, cold]) await world[Symbol.asyncDispose]()
})

interface Subject {
  readonly id: string
  readonly vmId: string
  readonly volumeId: string
  readonly appId: string
  readonly source: string
  readonly target: string
}

async function worldOf(movesVolumes: boolean) {
  const world = await computeWorld()
  const { db, projectId } = world
  const hosts = [await world.addHost({ movesVolumes }), await world.addHost({ movesVolumes })]
  const hostOf = (id: string | null | undefined) => hosts.find(host => host.id === id)
  const having = (volumeId: string) => hosts.filter(host => host.storage.volumes.has(volumeId))
  /** Returns the hosts on which a guest may currently write to the volume. */
  const writing = (volumeId: string) =>
    hosts.filter(host => [...host.vms.values()].some(vm => vm.disks.some(disk => disk.volumeId === volumeId)))
  let [made, written] = [0, 0]

  /** Lets the guest write, on whichever host it runs. Acknowledged writes must never be lost. */
  const write = (s: Pick<Subject, 'vmId' | 'volumeId'>) => {
    for (const host of hosts) {
      const vm = host.vms.get(s.vmId)
      if (vm?.state === 'running' && vm.disks.some(disk => disk.volumeId === s.volumeId))
        host.storage.write(s.volumeId, `write ${++written}`)
    }
  }
  const vmWithVolume = async (accessMode: 0 | 1 = 0) => {
    const app = await world.app()
    await db.run({ name: 'test.oneVm', text: 'UPDATE app SET max_replicas = 1 WHERE id = $1' }, [app.id])
    const { id: volumeId } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
    await db.tx(tx =>
      attachVolume(tx, { projectId, volumeId, appId: app.id, mountPoint: '/data', accessMode, by: 'user' }),
    )
    const vmId = (await world.deploy(app)).vmIds[0] ?? ''
    await world.until(async () => (await store.byId(db, vmId))?.healthy === true)
    return { appId: app.id, app, volumeId, vmId }
  }
  const migrate = async (): Promise<Subject> => {
    const one = await vmWithVolume()
    write(one)
    const vm = await store.byId(db, one.vmId)
    const all = await listHosts(db, 3600)
    const source = all.find(host => host.id === vm?.hostId)
    const target = all.find(host => host.id !== vm?.hostId)
    if (!vm || !source || !target) throw new Error('the VM has no host')
    const choice = chooseMove(vm, source, target, await coMovedOf(db, vm.id))
    if (!('plan' in choice)) throw new Error(choice.why)
    const { plan } = choice
    expect(plan.method).toBe(movesVolumes ? 'live' : 'stop-and-copy')
    const id = await db.tx(async tx => {
      expect(await reserve(tx, target.id, vm)).toBe(true)
      const ends = { sourceHostId: source.id, targetHostId: target.id, method: plan.method, withVolumes: true }
      return startMigration(tx, { ...vm, vmId: vm.id, ...ends }, plan.volumes)
    })
    return { ...one, id, source: source.id, target: target.id }
  }
  const stateOf = async (s: Pick<Subject, 'id'>) =>
    (await world.rows<{ state: string }>(`SELECT state FROM migration WHERE id = $1`, s.id))[0]?.state
  const advance = async (s: Subject) => {
    write(s)
    // Two guests must never be able to write at the same time.
    expect(writing(s.volumeId).length).toBeLessThanOrEqual(1)
    await world.run('vm', 'volume', 'volumeMove', 'deployment')
    await world.hostsMove()
    expect(writing(s.volumeId).length).toBeLessThanOrEqual(1)
    write(s)
  }
  /**
   * Expects that the app runs exactly once, on one of these hosts and next to its volume, that the volume has the last
   * write, and that it exists on no other host.
   */
  const runsOn = async (s: Subject, on: readonly string[]) => {
    const vms = () =>
      world.rows<{ id: string; host: string }>(
        `SELECT id, host_id AS host FROM vm WHERE app_id = $1 AND healthy`,
        s.appId,
      )
    await world.until(async () => {
      const found = await findVolume(db, s.volumeId)
      return (
        found?.state === 'ready' &&
        found.movingTo === null &&
        having(s.volumeId).length === 1 &&
        (await vms()).length === 1
      )
    })
    const volume = await findVolume(db, s.volumeId)
    expect(on).toContain(volume?.hostId)
    expect((await vms())[0]?.host).toBe(volume?.hostId)
    expect(writing(s.volumeId).map(host => host.id)).toEqual([volume?.hostId])
    expect(having(s.volumeId).map(host => host.id)).toEqual([volume?.hostId])
    expect(hostOf(volume?.hostId)?.storage.volumes.get(s.volumeId)?.content).toBe(`write ${written}`)
    await ends(s)
  }
  /** Deletes the app and the volume, and expects that nothing is left on any host. */
  const ends = async (s: Subject) => {
    await world.deploymentsEnd({ id: s.appId, projectId, name: '' })
    await db.run({ name: 'test.detach', text: 'DELETE FROM volume_attachment WHERE volume_id = $1' }, [s.volumeId])
    await db.tx(tx => deleteVolume(tx, s.volumeId))
    await world.until(async () => (await findVolume(db, s.volumeId)) === undefined)
    expect(having(s.volumeId)).toEqual([])
    expect(hosts.flatMap(one => [...one.vms.keys()])).toEqual([])
    expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
  }
  return { world, db, hosts, hostOf, migrate, stateOf, advance, runsOn, ends, vmWithVolume, write, writing }
}

const matrices = ({ world, db, migrate, stateOf, advance, runsOn }: typeof live, unused: readonly string[]) => {
  const workflow = world.workflows.migration
  const elsewhere = Object.fromEntries(unused.map(phase => [phase, 'the commit assigns the VM to the target directly']))
  const moved = crashMatrix<Subject>({
    db,
    workflow,
    makeSubject: migrate,
    advance,
    remove: async s => void (await db.tx(tx => cancelMigration(tx, s.id))),
    unreachable: { ...elsewhere, cancelling: 'covered by the cancelled migrations' },
    check: async s => runsOn(s, (await stateOf(s)) === 'completed' ? [s.target] : [s.source]),
  })
  const cancelled = crashMatrix<Subject>({
    db,
    workflow,
    makeSubject: migrate,
    advance: async (s, phase) => {
      if (phase === 'copying') await db.tx(tx => cancelMigration(tx, s.id))
      await advance(s)
    },
    // After the removal, the deployment creates another VM, which has to start on the host where the removed VM last
    // wrote to the volume.
    remove: s => db.tx(tx => setVmWant(tx, s.vmId, 'absent')),
    unreachable: Object.fromEntries(
      ['preparing', 'copying', 'switching', 'clearing'].map(phase => [phase, 'covered by the other matrix']),
    ),
    check: async s => {
      expect(await stateOf(s)).toMatch(/cancelled|completed/)
      await runsOn(s, (await stateOf(s)) === 'completed' ? [s.target] : [s.source])
    },
  })
  return { moved, cancelled }
}

describe.each([
  ['that moves live', live],
  ['that is stopped and copied', cold],
] as const)('crash matrix of the migration of a VM with a volume %s', (_, part) => {
  const { moved, cancelled } = matrices(part, ['switching'])
  it('contains each phase of the workflow with each fault', () =>
    // Moves of VMs with volumes skip the phase `switching`; migration.test.ts covers it.
    expect(new Set([...moved, ...cancelled].map(one => one.name)).size + faults.length).toBe(
      Object.keys(part.world.workflows.migration.phases).length * faults.length,
    ))
  // Only partly in `npm test`: the matrix of the VM that moves live covers the other faults of this workflow.
  const some = part === cold ? everySecond : (cases: readonly CrashCase[]) => cases
  describe('a migration with a volume that completes', () => {
    it.each(some(moved))('ends as usual despite a fault ($name)', ({ run }) => run())
  })
  describe('a migration with a volume that is cancelled', () => {
    it.each(some(cancelled))('ends as usual despite a fault ($name)', ({ run }) => run())
  })
})

it("on the target, a volume's disk gets a new generation if the VM writes to it, and keeps its generation if the VM only reads it", () => {
  const disk = { volumeId: 'v', pool: 'local', sizeMib: 64, generation: 7, mountPoint: '/data' }
  const reported = (readOnly: boolean) => diskThere({ volumes: [] })({ ...disk, readOnly }).generation
  expect([reported(false), reported(true)]).toEqual([8, 7])
})

describe.each([
  ['live', live],
  ['stop-and-copy', cold],
] as const)('a VM with a volume (move method: %s)', (method, part) => {
  const { world, db, hostOf, migrate, stateOf, runsOn, advance } = part
  const ends = (s: Subject, state: RegExp) => world.until(async () => state.test((await stateOf(s)) ?? ''), 120)

  it('moves and leaves a record of the method, progress and downtime', async () => {
    const s = await migrate()
    await ends(s, /completed/)
    const [row] = await world.rows<{ method: string; percent: number; total: number; downtime: number }>(
      `SELECT method, percent, total_bytes AS total, downtime_ms AS downtime FROM migration WHERE id = $1`,
      s.id,
    )
    expect(row).toMatchObject({ method, percent: 100 })
    expect(row?.total).toBeGreaterThan(0)
    expect(row?.downtime).toBeGreaterThan(0)
    await runsOn(s, [s.target])
  })

  it('stays on its host when the target does not respond and the move is cancelled', async () => {
    const s = await migrate()
    const target = hostOf(s.target) as SimHost
    for (let n = 0; n < 2; n++) await advance(s)
    target.reachable = false
    for (let n = 0; n < 4; n++) await world.until(async () => false, 1).catch(() => undefined)
    await db.tx(tx => cancelMigration(tx, s.id))
    for (let n = 0; n < 4; n++) await world.until(async () => false, 1).catch(() => undefined)
    target.reachable = true
    await ends(s, /cancelled|completed/)
    await runsOn(s, [s.source, s.target])
  })

  it('leaves a draining host together with its volume', async () => {
    const one = await part.vmWithVolume()
    part.write(one)
    const vm = await store.byId(db, one.vmId)
    const leaving = vm?.hostId ?? ''
    await db.tx(tx => cordon(tx, leaving, { cordoned: true, draining: true }))
    await world.until(async () => {
      part.write(one)
      return hostOf(leaving)?.vms.size === 0 && hostOf(leaving)?.storage.volumes.size === 0
    }, 200)
    const over = () => world.rows(`SELECT id FROM migration WHERE ended_at IS NULL`)
    await world.until(async () => (await over()).length === 0)
    await db.tx(tx => cordon(tx, leaving, { cordoned: false, draining: false }))
    const [last] = await world.rows<{ method: string; state: string }>(
      `SELECT method, state FROM migration ORDER BY id DESC LIMIT 1`,
    )
    expect(last).toEqual({ method, state: 'completed' })
    const other = part.hosts.find(host => host.id !== leaving)?.id ?? ''
    await runsOn({ ...one, id: '', source: leaving, target: other }, [other])
  })

  it('gets no further volumes attached while it is moving', async () => {
    const s = await migrate()
    const vm = await store.byId(db, s.vmId)
    const { projectId } = world
    const attached = db.tx(async tx => {
      const { id: volumeId } = await createVolume(tx, { projectId, name: `late-${s.id}`, sizeMib: 64 })
      const where = { projectId, volumeId, appId: s.appId, deploymentId: vm?.deploymentId ?? '', mountPoint: '/late' }
      await attachVolume(tx, { ...where, accessMode: 0, by: 'user' })
      if (await claimRunning(tx, s.vmId, s.source, volumeId)) throw new Error('refused')
    })
    await expect(attached).rejects.toThrow('refused')
    await ends(s, /completed/)
    await runsOn(s, [s.target])
  })

  it('has its volumes locked before the rows of their moves, as in every operation on volumes, which prevents deadlocks', async () => {
    const s = await migrate()
    const m = await migrations.byId(db, s.id)
    if (!m) throw new Error('the migration does not exist')
    let tries = 0
    const waits = async () =>
      (await world.rows(`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`))
        .length > 0
    const touch = { name: 'test.touch', text: 'UPDATE volume_move SET percent = percent WHERE migration_id = $1' }
    const acts = [
      (tx: Tx) => finishCopies(tx, s.id),
      (tx: Tx) => settled(tx, { ...m, row: undefined, vm: undefined, volumes: [], snapshots: [] }),
    ]
    for (const act of acts) {
      const held = Promise.withResolvers<void>()
      const ours = db.tx(async tx => {
        tries++
        await lockVolumes(tx, [s.volumeId])
        held.resolve()
        await until(waits, { what: 'the other transaction waits' })
        await tx.run(touch, [s.id])
      })
      await held.promise
      const theirs = db.tx(async tx => {
        tries++
        await act(tx)
        throw new Error('did not happen')
      })
      await Promise.all([ours, expect(theirs).rejects.toThrow(/did not/)])
    }
    expect(tries).toBe(4)
    await ends(s, /completed/)
    await runsOn(s, [s.target])
  })

  it('moves by stop-and-copy if it can only read the volume', async () => {
    const one = await part.vmWithVolume(1)
    const vm = await store.byId(db, one.vmId)
    const all = await listHosts(db, 3600)
    const [source, target] = [all.find(host => host.id === vm?.hostId), all.find(host => host.id !== vm?.hostId)]
    if (!vm || !source || !target) throw new Error('the VM has no host')
    expect(chooseMove(vm, source, target, await coMovedOf(db, vm.id))).toMatchObject({
      plan: { method: 'stop-and-copy' },
    })
    await part.ends({ ...one, id: '', source: '', target: '' })
  })

  it('cannot start to move while a snapshot of the volume is taken, and the refusal gives that reason', async () => {
    const one = await part.vmWithVolume()
    await db.tx(tx => createVolumeSnapshot(tx, one.volumeId, { name: 'now' }))
    const obstacle = async (want: string) => moveObstacle({ want }, await coMovedOf(db, one.vmId))
    expect(await obstacle('running')).toContain('is being changed, snapshotted or cloned')
    expect(await obstacle('stopped')).toContain('being stopped or removed')
    await world.until(async () => (await obstacle('running')) === undefined)
    await part.ends({ ...one, id: '', source: '', target: '' })
  })
})
