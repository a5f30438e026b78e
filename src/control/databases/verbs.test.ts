// Not repeated on the distribution's PostgreSQL: takes thousands of workflow steps, the same on each server.
/**
 * Runs every verb (operation that changes something) of databases, their branches and snapshots in every phase: before
 * a step, and in busy phases also during a step and while the host is unreachable. The verb must take effect
 * eventually, or be refused with a reason.
 */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { computeWorld } from '../../../test/support/compute.ts'
import { testLog } from '../../../test/support/log.ts'
import { runsAll } from '../../../test/support/all-examples.ts'
import { newId } from '../../lib/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { AnyWorkflow } from '../../engine/workflow.ts'
import { createRunner } from '../../engine/runner.ts'
import { createLiveStats } from '../hosts/index.ts'
import { ApiError } from '../http/errors.ts'
import * as backups from './backup-store.ts'
import { createBranch, createDatabase, startDeletingDatabase } from './create.ts'
import { databaseFeature } from './routes.ts'
import { branchStatusOf, knowsPassword, shapeOf, statusOf } from './rules.ts'
import { databaseOperations } from './schema.ts'
import { takeSnapshot } from './snapshot-workflow.ts'
import * as snapshots from './snapshot-store.ts'
import * as store from './store.ts'
import { takeTunnelPassword } from './tunnel-password.ts'
import { tunnelUser } from './view.ts'

const world = await computeWorld()
afterEach(() => world.abandonAll())
afterAll(async () => world[Symbol.asyncDispose]())
const { db, deps, projectId } = world
const room = { vcpus: 10_000, memoryMib: 10_000_000, diskMib: 1_000_000_000, poolBytes: 2 ** 44 }
const host = await world.addHost(room)
const { volumes: stored } = host.storage
const image = 'oci:postgres:15'
const accountId = newId()
await world.rows(
  `INSERT INTO account (id, email, password_hash, role) VALUES ($1, 'owner@example.com', '', 'User') RETURNING id`,
  accountId,
)
const caller = { userId: accountId, via: { kind: 'session', sessionId: newId() } }
const { handlers } = databaseFeature({ ...deps, live: createLiveStats(deps.clock) })

/** Calls a write handler as the HTTP server does. */
async function call(operation: keyof typeof databaseOperations, s: Subject, given: object = {}, params: object = {}) {
  const handler = Object(handlers[operation])
  const work = await handler.write({
    project: { id: projectId },
    params: { id: s.id, ...params },
    body: given,
    caller,
    audit: () => undefined,
  })
  return (tx: Tx) => work(tx)
}

interface Subject {
  readonly id: string
  /** Id of the branch that was current when the verb was applied. */
  readonly mainId: string
  /** Name of another branch of the database; empty if there is none. */
  readonly other: string
  readonly restores: number
}

let made = 0
const name = () => `n${++made}`
const branchOf = (id: string) => store.branch(db, id)
const current = async ({ id }: Pick<Subject, 'id'>) => (await store.current(db, [id])).get(id)
const otherOf = async (s: Subject) => (await store.branches(db, s.id)).find(one => one.name === s.other)
/** Handles one database after another, because they share few database sessions. */
const forEach = async (all: readonly Subject[], act: (s: Subject) => Promise<unknown>) => {
  for (const s of all) await act(s)
  return all
}
const every = async (all: readonly Subject[], holds: (s: Subject) => Promise<boolean>) => {
  for (const s of all) if (!(await holds(s))) return false
  return true
}
const contentOf = async (branchId: string) => stored.get((await branchOf(branchId))?.dataVolumeId ?? '')

const fresh = async (count: number): Promise<readonly Subject[]> => {
  const shape = shapeOf({ engine: 'postgres' }, [15])
  const all: Subject[] = []
  while (all.length < count) {
    const id = await db.tx(tx => createDatabase(deps, tx, { ...shape, projectId, name: name() }))
    all.push({ id, mainId: (await current({ id }))?.id ?? '', other: '-', restores: 0 })
  }
  return all
}
/** Creates running databases with the snapshot `one` and a full backup. */
const running = async (count: number) => {
  const all = await fresh(count)
  const runs = async ({ mainId }: Subject) => {
    const b = await branchOf(mainId)
    return b !== undefined && statusOf(b) === 'running'
  }
  await world.until(() => every(all, runs))
  await forEach(all, async s => {
    const b = await branchOf(s.mainId)
    const volume = await contentOf(s.mainId)
    if (!b || !volume) throw new Error('BUG: a running branch has no volume on its host')
    volume.content = `one of ${s.id}`
    await db.tx(tx => takeSnapshot(tx, b, { name: 'one', kind: 'user' }))
    await backups.record(db, b.id, {
      newestAt: new Date(Date.now() - 60_000),
      backups: 1,
      sizeBytes: 1,
      startedAt: null,
      error: null,
    })
  })
  await world.until(() => every(all, async s => (await snapshotOf(s, 'one'))?.state === 'ready'))
  return forEach(all, async s => {
    const volume = await contentOf(s.mainId)
    if (volume) volume.content = `two of ${s.id}`
  })
}
const othersMove = async () => {
  await world.hostsMove()
  await world.run('vm', 'deployment', 'app', 'volume', 'volumeSnapshot', 'databaseSnapshot')
}
/** Runs the workflow of each branch until the branch is in the phase, but no further. */
const stepInto = async (ids: readonly string[], phase: string) => {
  const ahead = async () => {
    const phases = await Promise.all(ids.map(async id => ({ id, phase: (await branchOf(id))?.phase })))
    return phases.filter(one => one.phase !== phase)
  }
  for (let round = 0, left = await ahead(); left.length > 0; round++, left = await ahead()) {
    if (round === 60) throw new Error(`not ${phase} but ${left.map(one => one.phase).join(', ')}`)
    await othersMove()
    const due = left.map(({ id }) => id)
    await world.rows(`UPDATE machine SET wake_at = now() + interval '1 hour' WHERE lease IS NULL RETURNING id`)
    await world.rows(`UPDATE machine SET wake_at = now() WHERE id = ANY ($1::uuid[]) RETURNING id`, due)
    await createRunner({ db, workflows: [world.workflows.branch], log: testLog(), batch: 100_000 }).tickOnce()
  }
}
const mainIds = (all: readonly Subject[]) => all.map(s => s.mainId)
type Bring = (count: number) => Promise<readonly Subject[]>
const after =
  (act: (s: Subject) => Promise<unknown>, phase?: string): Bring =>
  async count => {
    const all = await forEach(await running(count), act)
    if (phase) await stepInto(mainIds(all), phase)
    return all
  }
const ask = async (operation: keyof typeof databaseOperations, s: Subject, given?: object, params?: object) => {
  const work = await call(operation, s, given, params)
  await db.tx(tx => work(tx))
}
const suspend = (s: Subject) => ask('updateDatabase', s, { suspended: true })
const resize = (s: Subject) => ask('updateDatabase', s, { vcpus: 4 })
const restore = (s: Subject) => ask('restoreDatabase', s, { snapshot_name: 'one' })
const restoreTo = (s: Subject) => ask('restoreDatabaseTo', s, { at: '2026-01-01T00:00:00Z' })
const remove = (s: Subject) => db.tx(tx => startDeletingDatabase(tx, s.id))
const withBranch =
  (source: object, phase?: string): Bring =>
  async count => {
    const all = await forEach(await running(count), s => ask('createDatabaseBranch', s, { name: 'other', ...source }))
    const others = all.map(s => ({ ...s, other: 'other' }))
    const branches = await Promise.all(others.map(otherOf))
    if (phase)
      await stepInto(
        branches.map(b => b?.id ?? ''),
        phase,
      )
    return others
  }
const withSpare: Bring = async count => {
  const ids: string[] = []
  const all = await forEach(await running(count), async s => {
    const fromSnapshotId = (await snapshotOf(s, 'one'))?.id ?? ''
    const of = { databaseId: s.id, projectId, name: 'spare', kind: 'spare', fromSnapshotId } as const
    ids.push((await db.tx(tx => createBranch(deps, tx, of))).id)
  })
  await stepInto(ids, 'standing')
  return all
}
const broken =
  (bring: Bring, phase: string): Bring =>
  async count => {
    const all = await bring(count)
    host.behaviour.set(image, 'crash')
    try {
      await stepInto(mainIds(all), phase)
    } finally {
      host.behaviour.delete(image)
    }
    return all
  }

/** Functions that create databases in a state. A phase has several states if it can be reached in different ways. */
const states: Readonly<Record<string, Bring>> = {
  starting: fresh,
  running,
  'running, with its password being changed': after(s => ask('rotateDatabasePassword', s)),
  'running, with a snapshot being taken': after(s => ask('createDatabaseSnapshot', s, { name: 'being-made' })),
  'running, with a branch being created': withBranch({ from_snapshot: 'one' }),
  'running, with a branch': withBranch({ from_snapshot: 'one' }, 'running'),
  'preparing, a branch': withBranch({ at: 'latest' }),
  'standing, a branch': withSpare,
  halting: after(suspend, 'halting'),
  'halting, for new sizes': after(resize, 'halting'),
  resting: after(suspend, 'resting'),
  'keeping, before the first step': after(restore),
  keeping: after(restore, 'keeping'),
  rewinding: after(restore, 'rewinding'),
  replaying: after(restoreTo, 'replaying'),
  undoing: broken(after(restoreTo, 'replaying'), 'undoing'),
  failing: broken(fresh, 'failing'),
  'failing, after it worked before': broken(after(resize, 'halting'), 'failing'),
  'deleting, before the first step': after(remove),
  deleting: after(remove, 'deleting'),
}

type Effect = (s: Subject, answer: unknown) => Promise<boolean>
interface Verb {
  readonly operation: keyof typeof databaseOperations
  readonly body?: object
  readonly params?: object
  readonly hasEffect: Effect
}

/** Returns whether no change of the branch is in progress. */
const settled = (b: store.Branch | undefined): b is store.Branch =>
  b !== undefined && (statusOf(b) === 'running' || statusOf(b) === 'suspended') && b.restores === b.restored
const settledAnd =
  (holds: (b: store.Branch, s: Subject) => boolean | Promise<boolean>): Effect =>
  async s => {
    const b = await current(s)
    return settled(b) && (await holds(b, s))
  }
/**
 * Returns whether the branch runs with the current size and settings. True for a suspended branch, which gets them at
 * its next start.
 */
const isCurrent = (b: store.Branch) => statusOf(b) === 'suspended' || b.revision >= b.database.revision
const snapshotOf = async (s: Subject, wanted: string) =>
  (await snapshots.list(db, s.id)).find(one => one.name === wanted)
const vmsOf = (b: store.Branch) =>
  world.rows<{ vcpus: number }>(`SELECT vcpus FROM vm WHERE app_id = $1 AND want <> 'absent'`, b.appId)

const verbs: Readonly<Record<string, Verb>> = {
  suspend: {
    operation: 'updateDatabase',
    body: { suspended: true },
    hasEffect: settledAnd(b => statusOf(b) === 'suspended'),
  },
  resume: {
    operation: 'updateDatabase',
    body: { suspended: false },
    hasEffect: settledAnd(b => statusOf(b) === 'running'),
  },
  resize: {
    operation: 'updateDatabase',
    body: { vcpus: 2 },
    hasEffect: settledAnd(async b => b.database.vcpus === 2 && (await vmsOf(b)).every(vm => vm.vcpus === 2)),
  },
  'grow its disk': {
    operation: 'updateDatabase',
    body: { disk_mib: 2048 },
    hasEffect: settledAnd(async b => {
      const volume = stored.get(b.dataVolumeId ?? '')
      return b.database.diskMib === 2048 && volume?.put.sizeMib === 2048
    }),
  },
  'change its settings': {
    operation: 'updateDatabase',
    body: { settings: { work_mem: '8MB' } },
    hasEffect: settledAnd(b => b.database.settings['work_mem'] === '8MB' && isCurrent(b)),
  },
  'rotate its password': {
    operation: 'rotateDatabasePassword',
    hasEffect: settledAnd(b => statusOf(b) === 'suspended' || knowsPassword(b)),
  },
  'request a tunnel password': {
    operation: 'createTunnelPassword',
    hasEffect: async (s, answer) => {
      const b = await branchOf(s.mainId)
      const { password } = Object(answer)
      if (!b) return false
      return (await takeTunnelPassword(db, deps.vault, password, tunnelUser(b), new Date())) !== undefined
    },
  },
  'take a snapshot': {
    operation: 'createDatabaseSnapshot',
    body: { name: 'new' },
    hasEffect: async s => (await snapshotOf(s, 'new'))?.state === 'ready',
  },
  'delete a snapshot': {
    operation: 'deleteDatabaseSnapshot',
    params: { snapshot_name: 'one' },
    hasEffect: async s =>
      (await world.rows(`SELECT id FROM database_snapshot WHERE database_id = $1 AND name = 'one'`, s.id)).length === 0,
  },
  'restore a snapshot': {
    operation: 'restoreDatabase',
    body: { snapshot_name: 'one' },
    hasEffect: settledAnd(
      async (b, s) => b.restored > s.restores && (await contentOf(b.id))?.content === `one of ${s.id}`,
    ),
  },
  'restore an instant': {
    operation: 'restoreDatabaseTo',
    body: { at: '2026-01-01T00:00:00Z' },
    hasEffect: settledAnd((b, s) => b.restored > s.restores && b.restoreMoment !== null),
  },
  'branch from a snapshot': {
    operation: 'createDatabaseBranch',
    body: { name: 'made', from_snapshot: 'one' },
    hasEffect: branchIsReady,
  },
  'branch from backups': {
    operation: 'createDatabaseBranch',
    body: { name: 'made', at: 'latest' },
    hasEffect: branchIsReady,
  },
  'promote a branch': {
    operation: 'promoteDatabaseBranch',
    params: { branch_name: 'other' },
    hasEffect: async s => (await current(s))?.name === 'other' && settled(await current(s)),
  },
  'delete a branch': {
    operation: 'deleteDatabaseBranch',
    params: { branch_name: 'other' },
    hasEffect: async s => (await otherOf(s)) === undefined,
  },
  'set the backup target': {
    operation: 'setDatabaseBackupTarget',
    body: {
      endpoint: 'https://s3.example.com',
      bucket: 'backups',
      access_key: 'key',
      secret_key: 'secret',
    },
    hasEffect: settledAnd(b => b.backupTarget !== null && isCurrent(b)),
  },
  delete: {
    operation: 'deleteDatabase',
    hasEffect: async s => {
      if ((await store.byId(db, s.id)) !== undefined) return false
      const left = await world.rows(`SELECT id FROM volume WHERE owner_id = $1`, s.mainId)
      return left.length === 0
    },
  },
}

async function branchIsReady(s: Subject): Promise<boolean> {
  const b = (await store.branches(db, s.id)).find(one => one.name === 'made')
  if (b === undefined) return false
  // The branches of a suspended database are suspended, too.
  return b.databaseWant === 'suspended' ? branchStatusOf(b) === 'suspended' : branchStatusOf(b) === 'ready'
}

type Outcome = { readonly answer: unknown } | { readonly refused: unknown }
interface Case {
  readonly what: string
  readonly verb: Verb
  readonly s: Subject
  outcome?: Outcome
}
const apply = async (one: Case): Promise<void> => {
  const { verb, s } = one
  try {
    const work = await call(verb.operation, s, verb.body, verb.params)
    one.outcome = { answer: await db.tx(tx => work(tx)) }
  } catch (refused) {
    one.outcome = { refused }
  }
}
const applyAll = async (cases: readonly Case[]) => {
  for (const one of cases) if (!one.outcome) await apply(one)
}

/** Applies the verbs between the load and the commit of a step of the branch's workflow. */
async function during(cases: readonly Case[]): Promise<void> {
  const workflow: AnyWorkflow = world.workflows.branch
  const byBranch = new Map(cases.map(one => [one.s.mainId, one]))
  const interrupted: AnyWorkflow = {
    ...workflow,
    async load(id: string) {
      const observed: unknown = await workflow.load(id)
      const one = byBranch.get(id)
      if (one && !one.outcome) await apply(one)
      return observed
    },
  }
  await world.rows(`UPDATE machine SET wake_at = now() WHERE lease IS NULL RETURNING id`)
  await createRunner({ db, workflows: [interrupted], log: testLog(), batch: 100_000 }).tickOnce()
  await applyAll(cases)
}

/** Makes the host unreachable before the verbs are applied, and reachable again a few rounds later. */
async function whileAway(cases: readonly Case[]): Promise<void> {
  host.reachable = false
  try {
    await applyAll(cases)
    for (let round = 0; round < 5; round++) {
      await othersMove()
      await world.run('branch')
    }
  } finally {
    host.reachable = true
  }
}
const moments = { 'before a step': applyAll, 'during a step': during, 'while its host is unreachable': whileAway }

/** Returns a description of the fault if the verb was refused for a wrong reason; otherwise undefined. */
function faultOf({ what, outcome }: Case): string | undefined {
  if (!outcome || !('refused' in outcome)) return undefined
  const { refused } = outcome
  const reasons = ['not_found', 'operation_in_progress', 'invalid_state']
  if (refused instanceof ApiError && reasons.includes(refused.code)) return undefined
  // A missing snapshot or branch is refused as an invalid request.
  if (refused instanceof ApiError && /has no branch|has no snapshot named/.test(refused.message)) return undefined
  return `${what}: ${String(refused)}`
}

/**
 * States in which verbs are tested at all moments, not only before a step. In the other states nothing is in progress
 * on a host, or the same as in a listed state. In `npm test` only `replaying`, because a restore has the most work in
 * progress.
 */
const statesOfAllMoments: readonly string[] = [
  'replaying',
  ...(runsAll
    ? ['halting, for new sizes', 'running', 'running, with a branch being created', 'keeping', 'deleting']
    : []),
]
/**
 * The states in `npm test`: a database that is ready, one that is being restored, and one that is being deleted. The
 * set-up of each also creates databases and snapshots.
 */
const frequent: readonly string[] = ['running', 'replaying', 'deleting']
const testedStates = Object.entries(states).filter(([state]) => runsAll || frequent.includes(state))
const momentsOf = (state: string) =>
  Object.entries(moments).filter(([when]) => when === 'before a step' || statesOfAllMoments.includes(state))

describe.each(testedStates)('a branch in state %s', (state, bring) => {
  it.each(momentsOf(state))('carries out or refuses each verb %s', { timeout: 300_000 }, async (_when, how) => {
    const all = Object.entries(verbs)
    const subjects = await bring(all.length)
    const cases: Case[] = []
    for (const [n, [what, verb]] of all.entries()) {
      const s = subjects[n]
      if (s) cases.push({ what, verb, s: { ...s, restores: (await branchOf(s.mainId))?.restored ?? 0 } })
    }
    await how(cases)
    expect(cases.map(faultOf).filter(fault => fault !== undefined)).toEqual([])
    let waiting = cases.filter(one => one.outcome && 'answer' in one.outcome)
    const haveEffect = async () => {
      const left: Case[] = []
      for (const one of waiting)
        if (!one.outcome || !('answer' in one.outcome) || !(await one.verb.hasEffect(one.s, one.outcome.answer)))
          left.push(one)
      waiting = left
      return waiting.length === 0
    }
    await world.until(haveEffect, 80).catch(() => undefined)
    expect(
      waiting.map(({ what }) => what),
      'accepted verbs without effect',
    ).toEqual([])
    // The verb `delete` tests a deletion in each state. These lines test a deletion after each verb.
    if (state !== 'running') return
    await forEach(subjects, remove)
    await world.until(() => every(subjects, async s => (await store.byId(db, s.id)) === undefined))
  })
})

it('every phase of the branch workflow has a state that is tested', () => {
  const named = Object.keys(states).map(state => state.split(',')[0] ?? '')
  expect(named).toEqual(expect.arrayContaining(Object.keys(world.workflows.branch.phases)))
})

it('every write operation of the contract has a verb that is tested', () => {
  const asked = new Set(Object.values(verbs).map(({ operation }) => operation))
  const writes = Object.entries(databaseOperations).filter(([id]) => 'write' in Object(handlers[id]))
  const apart = ['createDatabase', 'deleteDatabaseBackupTarget', 'reAttach', 'validate']
  expect(writes.map(([id]) => id).filter(id => !apart.includes(id) && !asked.has(id as never))).toEqual([])
})
