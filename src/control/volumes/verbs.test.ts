/**
 * Tests every operation on volumes and their snapshots in every state of the volume's workflow: before a step, during
 * a step, and while the host is unreachable. The operation must eventually take effect, or be refused.
 */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { testLog } from '../../../test/support/log.ts'
import type { Tx } from '../../db/db.ts'
import type { AnyWorkflow } from '../../engine/workflow.ts'
import { createRunner } from '../../engine/runner.ts'
import { ApiError } from '../http/errors.ts'
import {
  cloneVolume,
  createVolume,
  createVolumeSnapshot,
  deleteVolume,
  deleteVolumeSnapshot,
  findVolume,
  findVolumeSnapshot,
  growVolume,
  restoreVolume,
} from './index.ts'
import { runsAll } from '../../../test/support/all-examples.ts'

const world = await computeWorld()
afterEach(() => world.abandonAll())
afterAll(async () => world[Symbol.asyncDispose]())
const { db, projectId } = world
const host = await world.addHost({ diskMib: 1_000_000 })
const { volumes: stored, snapshots: kept } = host.storage

let made = 0
const name = () => `v${++made}`
interface Subject {
  readonly id: string
  /**
   * Id of a snapshot with the content `one`. In the state `placing`, the volume has no snapshot, and this is its own
   * id.
   */
  readonly snapshotId: string
}
const phaseOf = async (id: string) =>
  (await world.rows<{ phase: string }>(`SELECT phase FROM machine WHERE id = $1`, id))[0]?.phase
const fresh = async (): Promise<Subject> => {
  const { id } = await db.tx(tx => createVolume(tx, { projectId, name: name(), sizeMib: 64 }))
  return { id, snapshotId: id }
}
const ready = async (): Promise<Subject> => {
  const { id } = await fresh()
  const first = await db.tx(tx => createVolumeSnapshot(tx, id, { name: name() }))
  await world.until(async () => (await findVolumeSnapshot(db, first.id))?.state === 'ready')
  const volume = stored.get(id)
  if (!volume) throw new Error('BUG: a ready volume is missing on its host')
  volume.content = 'one'
  const { id: snapshotId } = await db.tx(tx => createVolumeSnapshot(tx, id, { name: name() }))
  await world.until(async () => (await findVolumeSnapshot(db, snapshotId))?.state === 'ready')
  volume.content = 'two'
  return { id, snapshotId }
}
const stepInto = async (id: string, phase: string) => {
  for (let round = 0; (await phaseOf(id)) !== phase; round++) {
    if (round === 10) throw new Error(`not ${phase} but ${await phaseOf(id)}`)
    await world.run('volume')
  }
}
const after = (act: (tx: Tx, subject: Subject) => Promise<unknown>, phase?: string) => async () => {
  const subject = await ready()
  await db.tx(tx => act(tx, subject))
  if (phase) await stepInto(subject.id, phase)
  return subject
}

const states: Readonly<Record<string, () => Promise<Subject>>> = {
  placing: fresh,
  creating: async () => {
    const subject = await fresh()
    await db.tx(tx => createVolumeSnapshot(tx, subject.id, { name: name() }))
    await stepInto(subject.id, 'creating')
    return subject
  },
  keeping: ready,
  'keeping, with a snapshot being taken': after((tx, { id }) => createVolumeSnapshot(tx, id, { name: name() })),
  'keeping, with a clone being created': after((tx, { snapshotId }) =>
    cloneVolume(tx, snapshotId, { projectId, name: name() }),
  ),
  'keeping, with its snapshot being removed': after((tx, { snapshotId }) => deleteVolumeSnapshot(tx, snapshotId)),
  'restoring, before the first step': after((tx, { id, snapshotId }) => restoreVolume(tx, id, snapshotId)),
  restoring: after((tx, { id, snapshotId }) => restoreVolume(tx, id, snapshotId), 'restoring'),
  'growing, before the first step': after((tx, { id }) => growVolume(tx, id, 80)),
  growing: after((tx, { id }) => growVolume(tx, id, 80), 'growing'),
  'removing, before the first step': after((tx, { id }) => deleteVolume(tx, id)),
  removing: after((tx, { id }) => deleteVolume(tx, id), 'removing'),
}

interface Verb {
  readonly act: (tx: Tx, subject: Subject) => Promise<{ readonly id: string } | void>
  /**
   * Returns whether the operation has taken effect.
   * @param id id of the resource that the operation has created, otherwise of the volume
   */
  readonly hasEffect: (subject: Subject, id: string) => Promise<boolean>
}
const verbs: Readonly<Record<string, Verb>> = {
  grow: {
    act: (tx, { id }) => growVolume(tx, id, 96),
    // A volume without a host need not grow, because a host will create it in the new size.
    hasEffect: async ({ id }) => {
      const volume = await findVolume(db, id)
      return volume?.sizeMib === 96 && (volume.grownMib === 96 || volume.hostId === null)
    },
  },
  snapshot: {
    act: (tx, { id }) => createVolumeSnapshot(tx, id, { name: name() }),
    hasEffect: async (_subject, id) => (await findVolumeSnapshot(db, id))?.state === 'ready' && kept.has(id),
  },
  restore: {
    act: (tx, { id, snapshotId }) => restoreVolume(tx, id, snapshotId),
    hasEffect: async ({ id }) => {
      const volume = await findVolume(db, id)
      return volume?.state === 'ready' && volume.error === null && stored.get(id)?.content === 'one'
    },
  },
  clone: {
    act: (tx, { snapshotId }) => cloneVolume(tx, snapshotId, { projectId, name: name() }),
    hasEffect: async (_subject, id) =>
      (await findVolume(db, id))?.state === 'ready' && stored.get(id)?.content === 'one',
  },
  delete: {
    act: (tx, { id }) => deleteVolume(tx, id),
    hasEffect: async ({ id }) => (await findVolume(db, id)) === undefined && !stored.has(id),
  },
  'delete its snapshot': {
    act: (tx, { snapshotId }) => deleteVolumeSnapshot(tx, snapshotId),
    hasEffect: async ({ snapshotId }) =>
      (await findVolumeSnapshot(db, snapshotId)) === undefined && !kept.has(snapshotId),
  },
}

type Outcome = { readonly made: string } | { readonly refused: unknown }
const apply = (verb: Verb, subject: Subject): Promise<Outcome> =>
  db
    .tx(tx => verb.act(tx, subject))
    .then(
      answer => ({ made: answer?.id ?? subject.id }),
      (refused: unknown) => ({ refused }),
    )

/** Runs the operation after a step of the volume's workflow has loaded the volume, and before the step commits. */
async function during(verb: Verb, subject: Subject): Promise<Outcome> {
  const volume: AnyWorkflow = world.workflows.volume
  let outcome: Outcome | undefined
  const interrupted: AnyWorkflow = {
    ...volume,
    async load(id: string) {
      const observed: unknown = await volume.load(id)
      if (id === subject.id) outcome ??= await apply(verb, subject)
      return observed
    },
  }
  await world.rows(`UPDATE machine SET wake_at = now() WHERE lease IS NULL RETURNING id`)
  await createRunner({ db, workflows: [interrupted], log: testLog(), batch: 100_000 }).tickOnce()
  return outcome ?? apply(verb, subject)
}
/** Runs the operation while the host is unreachable; the host comes back after five rounds of workflow steps. */
async function whileAway(verb: Verb, subject: Subject): Promise<Outcome> {
  host.reachable = false
  try {
    const outcome = await apply(verb, subject)
    for (let round = 0; round < 5; round++) {
      await world.hostsMove()
      await world.run('volume', 'volumeSnapshot')
    }
    return outcome
  } finally {
    host.reachable = true
  }
}
const moments = { 'before a step': apply, 'during a step': during, 'while its host is unreachable': whileAway }

/** The state in which `npm test` tries every moment; in the others, it only tries the moment before a step. */
const busiest = 'restoring'
const momentsOf = (state: string) =>
  Object.entries(moments).filter(([when]) => runsAll || when === 'before a step' || state === busiest)

describe.each(Object.entries(states))('an operation on a volume in the state "%s"', (state, bring) => {
  it.each(
    momentsOf(state).flatMap(([when, how]) => Object.entries(verbs).map(([what, verb]) => ({ when, how, what, verb }))),
  )('takes effect or is refused: $what, $when', async ({ how, verb }) => {
    const subject = await bring()
    const outcome = await how(verb, subject)
    if ('refused' in outcome) {
      expect(outcome.refused).toBeInstanceOf(ApiError)
      expect(['not_found', 'operation_in_progress', 'invalid_state']).toContain(Object(outcome.refused).code)
      return
    }
    await world.until(() => verb.hasEffect(subject, outcome.made), 40)
  })
})

it('the tested states include every phase of the volume workflow', () => {
  const named = Object.keys(states).map(state => state.split(',')[0] ?? '')
  expect(named).toEqual(expect.arrayContaining(Object.keys(world.workflows.volume.phases)))
})
