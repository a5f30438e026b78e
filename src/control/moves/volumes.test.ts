/**
 * Crash matrix (each phase with each fault) of moving a volume: the volume ends up complete on exactly one host, and
 * nothing is left on the other.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { crashMatrix, faults } from '../../../test/support/crash-matrix.ts'
import { cordon } from '../hosts/index.ts'
import {
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  drainedVolumes,
  findVolume,
  findVolumeSnapshot,
} from '../volumes/index.ts'
import { cancelMove, newestMove, startMove } from './index.ts'

const world = await computeWorld()
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const hosts = [await world.addHost(), await world.addHost()]
const hostOf = (id: string | null | undefined) => hosts.find(host => host.id === id)
const having = (volumeId: string) => hosts.filter(host => host.storage.volumes.has(volumeId))

interface Subject {
  readonly id: string
  readonly volumeId: string
  readonly snapshotId: string
  readonly source: string
  readonly target: string
}

let made = 0
/** Creates a volume with the content `now`, and a snapshot of it with the content `then`. */
async function volume() {
  const { id } = await db.tx(tx => createVolume(tx, { projectId, name: `v${++made}`, sizeMib: 64 }))
  const snapshot = async () => {
    const { id: snapshotId } = await db.tx(tx => createVolumeSnapshot(tx, id, { name: `s${++made}` }))
    await world.until(async () => (await findVolumeSnapshot(db, snapshotId))?.state === 'ready')
    return snapshotId
  }
  await snapshot()
  const found = await findVolume(db, id)
  const storage = hostOf(found?.hostId)?.storage
  if (!found?.hostId || !storage) throw new Error('the volume has no host')
  storage.write(id, 'then')
  const snapshotId = await snapshot()
  storage.write(id, 'now')
  return { volumeId: id, snapshotId, source: found.hostId }
}
async function move(given?: Omit<Subject, 'id' | 'target'>): Promise<Subject> {
  const one = given ?? (await volume())
  const target = hosts.find(host => host.id !== one.source)?.id ?? ''
  const id = await db.tx(tx => startMove(tx, { volumeId: one.volumeId, targetHostId: target, targetPool: 'local' }))
  if (id === undefined) throw new Error('the volume cannot move')
  return { ...one, id, target }
}
const advance = async () => {
  await world.hostsMove()
  await world.run('volume', 'volumeSnapshot')
}
const stateOf = async (s: Pick<Subject, 'id'>) =>
  (await world.rows<{ state: string }>(`SELECT state FROM volume_move WHERE id = $1`, s.id))[0]?.state
/** Expects the volume to be complete and usable on this host, and nothing to be left on any other. */
async function isOn(hostId: string, s: Pick<Subject, 'volumeId' | 'snapshotId'>): Promise<void> {
  await world.until(async () => {
    const found = await findVolume(db, s.volumeId)
    return found?.state === 'ready' && found.movingTo === null && having(s.volumeId).length === 1
  })
  expect((await findVolume(db, s.volumeId))?.hostId).toBe(hostId)
  const { storage } = having(s.volumeId)[0]!
  expect(having(s.volumeId)[0]?.id).toBe(hostId)
  expect(storage.volumes.get(s.volumeId)).toMatchObject({ content: 'now', state: 'ready' })
  expect(storage.snapshots.get(s.snapshotId)?.content).toBe('then')
  // Also checks that a snapshot of the volume can still be taken.
  const again = await db.tx(tx => createVolumeSnapshot(tx, s.volumeId, { name: `after-${++made}` }))
  await world.until(async () => (await findVolumeSnapshot(db, again.id))?.state === 'ready')
}
async function isNowhere(volumeId: string): Promise<void> {
  await world.until(async () => (await findVolume(db, volumeId)) === undefined)
  expect(having(volumeId)).toEqual([])
}

const moved = crashMatrix<Subject>({
  db,
  workflow: world.workflows.volumeMove,
  makeSubject: () => move(),
  advance,
  remove: async s => void (await db.tx(tx => cancelMove(tx, s.id))),
  unreachable: { cancelling: 'covered by the cancelled moves', dropping: 'covered by the cancelled moves' },
  check: async s => {
    await isOn((await stateOf(s)) === 'completed' ? s.target : s.source, s)
    await db.tx(tx => deleteVolume(tx, s.volumeId))
    await isNowhere(s.volumeId)
  },
})
const cancelled = crashMatrix<Subject>({
  db,
  workflow: world.workflows.volumeMove,
  makeSubject: () => move(),
  advance: async (s, phase) => {
    if (phase === 'copying') await db.tx(tx => cancelMove(tx, s.id))
    await advance()
  },
  remove: s => db.tx(tx => deleteVolume(tx, s.volumeId)),
  unreachable: Object.fromEntries(
    ['preparing', 'copying', 'clearing'].map(phase => [phase, 'covered by the other matrix']),
  ),
  check: async (s, { fault }) => {
    expect(await stateOf(s)).toMatch(/cancelled|completed/)
    return fault === 'deletion'
      ? isNowhere(s.volumeId)
      : isOn((await stateOf(s)) === 'completed' ? s.target : s.source, s)
  },
})

describe('crash matrix of the move of a volume', () => {
  it('contains each phase of the workflow with each fault', () =>
    expect(new Set([...moved, ...cancelled].map(one => one.name)).size).toBe(
      Object.keys(world.workflows.volumeMove.phases).length * faults.length,
    ))
  describe('a move of a volume that completes', () => {
    it.each(moved)('ends as usual despite a fault ($name)', ({ run }) => run())
  })
  describe('a move of a volume that is cancelled', () => {
    it.each(cancelled)('ends as usual despite a fault ($name)', ({ run }) => run())
  })
})

const ends = (s: Subject) =>
  world.until(async () => ['completed', 'cancelled', 'failed'].includes((await stateOf(s)) ?? ''))

describe('a volume', () => {
  it('moves to another host and back, and its generation never decreases', async () => {
    const there = await move()
    const before = await findVolume(db, there.volumeId)
    await ends(there)
    await isOn(there.target, there)
    const back = await move({ ...there, source: there.target })
    expect(back.target).toBe(there.source)
    await ends(back)
    await isOn(there.source, there)
    const attach = await world.rows<{ generation: number }>(
      `SELECT attach_generation AS generation FROM volume WHERE id = $1`,
      there.volumeId,
    )
    // No VM had the volume attached read-write, so the attach generation is unchanged after the moves.
    expect(attach[0]?.generation).toBe(0)
    expect(before?.generation).toBeLessThan((await findVolume(db, there.volumeId))?.generation ?? 0)
  })

  it('stays on the source with an error message when the transfer fails, and can be moved again', async () => {
    const s = await move()
    await world.until(async () => hostOf(s.source)?.storage.volumes.get(s.volumeId)?.transfer?.phase === 'copying')
    hostOf(s.source)?.storage.powerCut()
    await ends(s)
    expect(await newestMove(db, s.volumeId)).toMatchObject({ state: 'failed', error: 'the connection broke' })
    await isOn(s.source, s)
    const again = await move(s)
    await ends(again)
    await isOn(s.target, s)
  })

  it('keeps its copy on the source until the target can make the volume usable, and the target retries', async () => {
    const s = await move()
    await world.until(async () => hostOf(s.target)?.storage.volumes.has(s.volumeId) === true)
    const there = hostOf(s.target)?.storage.volumes.get(s.volumeId)
    if (!there) throw new Error('the volume is not on the target')
    there.failGrowth = 'the disk is full'
    const found = () => findVolume(db, s.volumeId)
    await world.until(async () => (await found())?.error === 'the disk is full')
    const failed = await found()
    expect(failed).toMatchObject({ hostId: s.target, state: 'creating' })
    // When the host reports its failure, the workflow must not retry immediately.
    for (let n = 0; n < 5; n++) await world.until(async () => false, 1).catch(() => undefined)
    expect(await found()).toMatchObject({ state: 'creating', generation: failed?.generation })
    expect(having(s.volumeId)).toHaveLength(2)
    expect(await stateOf(s)).toBe('clearing')
    delete there.failGrowth
    const later = {
      name: 'test.later',
      text: `UPDATE volume SET updated_at = now() - interval '1 minute' WHERE id = $1`,
    }
    await db.run(later, [s.volumeId])
    await ends(s)
    expect(await stateOf(s)).toBe('completed')
    expect(await found()).toMatchObject({ error: null })
    await isOn(s.target, s)
  })

  it('is not moved off a draining host again within ten minutes after that move was cancelled', async () => {
    const s = await move()
    await db.tx(tx => cancelMove(tx, s.id))
    await ends(s)
    await db.tx(tx => cordon(tx, s.source, { cordoned: true, draining: true }))
    const sweep = drainedVolumes(world.deps)
    const round = { now: new Date(), signal: new AbortController().signal }
    await sweep.run(round)
    expect((await newestMove(db, s.volumeId))?.id).toBe(s.id)
    const long = { name: 'test.ago', text: `UPDATE volume_move SET ended_at = now() - interval '1 hour' WHERE id = $1` }
    await db.run(long, [s.id])
    await world.until(async () => {
      await sweep.run(round)
      return (await newestMove(db, s.volumeId))?.id !== s.id
    })
    await db.tx(tx => cordon(tx, s.source, { cordoned: false, draining: false }))
    await isOn(s.target, s)
  })

  it('cannot be moved twice at a time, and a snapshot requested during a move is taken afterwards', async () => {
    const s = await move()
    const twice = { volumeId: s.volumeId, targetHostId: s.target, targetPool: 'local' }
    expect(await db.tx(tx => startMove(tx, twice))).toBeUndefined()
    // This snapshot is requested during the move and taken afterwards.
    const late = await db.tx(tx => createVolumeSnapshot(tx, s.volumeId, { name: 'late' }))
    await ends(s)
    await world.until(async () => (await findVolumeSnapshot(db, late.id))?.state === 'ready')
    expect(hostOf(s.target)?.storage.snapshots.get(late.id)?.content).toBe('now')
    expect(hostOf(s.source)?.storage.snapshots.size).toBe(
      [...(hostOf(s.source)?.storage.snapshots.values() ?? [])].filter(one => one.put.volumeId !== s.volumeId).length,
    )
  })
})
