/**
 * Moving a VM that runs: the target prepares to receive it, the source hands it over, the VM becomes the target's in one
 * commit, the source lets go. Until the source says that the guest runs there, giving up leaves it where it was; the
 * target is ended only after the source has said that it still has it.
 */
import type { MigrationObserved, VmObserved } from '../../contract/agent.ts'
import type { Tx } from '../../db/db.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { abandon, agentClient, release } from '../hosts/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { movesOf, type SnapshotMove, snapshotMovesOf, type VolumeMove } from '../moves/index.ts'
import { type HoldDeps, holding, lateHold } from './hold.ts'
import { coMovedMs } from './start.ts'
import * as store from './store.ts'
import type { Migration } from './store.ts'
import {
  copyingCold,
  diskThere,
  isCold,
  keepVolumes,
  lastHostOf,
  preparingCold,
  settled,
  snapshotsThere,
  untilItRuns,
  volumesAwaited,
  volumesFailed,
} from './volumes.ts'
import { recordObserved } from '../vms/index.ts'
import type { Vm } from '../vms/index.ts'
import { vmById, deploymentsOnHost, desiredVm, raiseVmGeneration } from '../vms/index.ts'
import { type DesiredVms, desiredVms } from '../vms/index.ts'

const preparingMs = minutes(2)
const copyingMs = minutes(30)
/** The source has said that the guest runs there; the target may lag behind a little, or have died. */
const arrivalMs = minutes(1)
/** Changes come by messages; this look is for what a lost one would hide. */
const lookAgainMs = seconds(2)

/** How long requests are held for a VM that runs on its new host and has not passed its health check there. */
const comingMs = seconds(30)
const healthMs = 250

type PlacedVm = Vm & { readonly hostId: string }

export interface Moving extends Migration {
  /** Undefined when the VM is not wanted any more. */
  readonly vm: PlacedVm | undefined
  /** Wanted or not. */
  readonly row: PlacedVm | undefined
  /** Of the VM, those that are carried over. */
  readonly volumes: readonly VolumeMove[]
  /** Those that have what the volumes held. */
  readonly snapshots: readonly SnapshotMove[]
}

type MigrationDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'vault'> & HoldDeps

export const migrationWorkflow = (deps: MigrationDeps) => {
  const desiredStates = desiredVms(deps)
  return workflow<Moving>()({
    kind: 'migration',
    edges: {
      preparing: ['copying', 'cancelling'],
      copying: ['switching', 'clearing', 'cancelling'],
      switching: ['clearing', 'cancelling'],
      cancelling: ['switching', 'clearing'],
      clearing: [],
    },
    load: id => load(deps, id),
    preempt: m =>
      (m.want === 'cancel' || !m.vm) && (m.state === 'preparing' || m.state === 'copying') ? 'cancelling' : undefined,
    phases: {
      preparing: ({ subject: m, enteredAt, now, signal }) =>
        preparing(desiredStates, m, { sinceMs: enteredAt.getTime(), nowMs: now.getTime() }, signal),
      copying: ({ subject: m, enteredAt, now, signal }) =>
        copying(deps, desiredStates, m, { elapsedMs: now.getTime() - enteredAt.getTime(), now }, signal),
      switching: ({ subject: m, enteredAt, now, signal }) =>
        switching(deps, m, now.getTime() - enteredAt.getTime(), signal),
      cancelling: ({ subject: m, signal }) => cancelling(deps, desiredStates, m, signal),
      clearing: ({ subject: m, enteredAt, now, signal }) =>
        clearing(deps, m, now.getTime() - enteredAt.getTime(), signal),
    },
  })
}

async function load(deps: Pick<Deps, 'db'>, id: string): Promise<Moving | undefined> {
  const migration = await store.byId(deps.db, id)
  if (!migration) return undefined
  const vm = await vmById(deps.db, migration.vmId)
  const row = vm?.hostId ? { ...vm, hostId: vm.hostId } : undefined
  const volumes = migration.withVolumes ? await movesOf(deps.db, id) : []
  const snapshots = migration.withVolumes ? await snapshotMovesOf(deps.db, id) : []
  return { ...migration, row, vm: row?.want === 'absent' ? undefined : row, volumes, snapshots }
}

async function preparing(
  desiredStates: DesiredVms,
  m: Moving,
  { sinceMs, nowMs }: { readonly sinceMs: number; readonly nowMs: number },
  signal: AbortSignal,
): Promise<Next<'copying' | 'cancelling'>> {
  if (!m.vm) return wait(0)
  if (m.targetLost || m.sourceLost) return go('cancelling', giveUp(m, 'a host was lost'))
  const trouble = volumesFailed(m)
  if (trouble) return go('cancelling', giveUp(m, trouble))
  // The first copy takes as long as it does.
  if (isCold(m)) return preparingCold(m)
  if (!snapshotsThere(m)) {
    if (nowMs - sinceMs <= coMovedMs) return wait(lookAgainMs)
    return go('cancelling', giveUp(m, 'the snapshots that go along could not be copied in time'))
  }
  if (m.withVolumes && m.coMovedAt === null) return wait(0, async tx => void (await store.coMovedThere(tx, m.id)))
  if (nowMs - (m.coMovedAt?.getTime() ?? sinceMs) > preparingMs)
    return go('cancelling', giveUp(m, 'the target did not get ready in time'))
  if (!volumesAwaited(m)) return wait(lookAgainMs)
  const only = { incoming: { migrationId: m.id }, ...(m.withVolumes ? { disk: diskThere(m) } : {}) }
  const { migration: observed } = await desiredStates.put({ ...m.vm, hostId: m.targetHostId }, signal, only)
  if (observed?.phase === 'failed') return go('cancelling', giveUp(m, observed.error ?? 'the target cannot receive it'))
  if (observed?.phase !== 'listening' || !observed.uri) return wait(lookAgainMs)
  const { uri } = observed
  return go(
    'copying',
    async tx => {
      await store.enter(tx, m.id, 'copying', uri)
      await store.raise(tx, m.vmId)
      await poke(tx, 'vm', m.vmId)
    },
    limitMs(m) + minutes(1),
  )
}

async function copying(
  deps: MigrationDeps,
  desiredStates: DesiredVms,
  m: Moving,
  { elapsedMs, now }: { readonly elapsedMs: number; readonly now: Date },
  signal: AbortSignal,
): Promise<Next<'switching' | 'clearing' | 'cancelling'>> {
  const trouble = m.state === 'copying' ? volumesFailed(m) : undefined
  if (trouble) return go('cancelling', giveUp(m, trouble))
  if (isCold(m)) {
    const next = await copyingCold(desiredStates, m, elapsedMs, signal)
    return typeof next === 'string' ? go('cancelling', giveUp(m, next)) : next
  }
  if (!m.vm || !m.uri) return wait(0)
  if (m.sourceLost) return go('cancelling', giveUp(m, 'the source was lost'))
  const late = lateHold(deps, m, now)
  if (late) return late
  const { migration: observed } = await desiredStates.put(m.vm, signal)
  if (observed?.migrationId === m.id && observed.phase === 'switched') return hasSwitched(m, observed)
  if (m.targetLost) return go('cancelling', giveUp(m, 'the target was lost'))
  if (elapsedMs > limitMs(m))
    return go('cancelling', giveUp(m, 'the guest changes its memory faster than it can be copied'))
  if (observed?.phase === 'failed')
    return go('cancelling', giveUp(m, observed.error ?? 'the source could not hand it over'))
  if (observed?.migrationId === m.id && observed.phase === 'cancelled')
    return go('cancelling', giveUp(m, 'the agent of the source was stopped'))
  const held = holding(deps, m, observed, now)
  if (held) return held
  return wait(lookAgainMs, async tx => {
    if (observed?.migrationId === m.id) await store.progress(tx, m.id, observed)
  })
}

/** The guest runs on the target: from this commit on it is the target's, and traffic goes there. */
async function switching(
  deps: MigrationDeps,
  m: Moving,
  elapsedMs: number,
  signal: AbortSignal,
): Promise<Next<'clearing' | 'cancelling'>> {
  if (!m.vm) return go('cancelling')
  if (m.targetLost) return go('cancelling', guestLost(m))
  const observed = await agentClient(deps.bus, m.targetHostId).get(m.vmId, signal)
  const failed = observed.migration?.migrationId === m.id && observed.migration.phase === 'failed'
  if (!arrived(observed)) return failed || elapsedMs > arrivalMs ? go('cancelling', guestLost(m)) : wait(seconds(1))
  return go(
    'clearing',
    async tx => {
      if (!(await store.move(tx, m.vmId, m.targetHostId, observed.generation)))
        throw new Error('the VM is not wanted any more')
      await store.enter(tx, m.id, 'clearing')
      await recordObserved(tx, m.targetHostId, observed)
      await refreshRoute(tx, m.appId)
      await poke(tx, 'vm', m.vmId)
      await poke(tx, 'deployment', m.deploymentId)
    },
    minutes(10),
  )
}

async function clearing(deps: MigrationDeps, m: Moving, elapsedMs: number, signal: AbortSignal): Promise<Next<never>> {
  if (!m.sourceLost && !(await gone(deps, m, m.sourceHostId, signal))) return wait(lookAgainMs)
  const starting = untilItRuns(m, elapsedMs)
  if (starting) return starting
  if (isComing(m, elapsedMs)) return wait(healthMs)
  return done(async tx => {
    if (!m.sourceLost) await release(tx, m.sourceHostId, m)
    else if (!m.sourceRemoved) await abandon(tx, m.sourceHostId, { ...m, id: m.vmId })
    await store.end(tx, m.id, 'completed')
    await pokeWhoWaited(tx, m)
  })
}

async function cancelling(
  deps: MigrationDeps,
  desiredStates: DesiredVms,
  m: Moving,
  signal: AbortSignal,
): Promise<Next<'switching' | 'clearing'>> {
  if (m.state !== 'cancelling')
    return wait(0, async tx => {
      // One that was stopped here starts here, with them.
      if (isCold(m)) await keepVolumes(tx, m)
      await store.enter(tx, m.id, 'cancelling')
      await raiseVmGeneration(tx, m.vmId)
      await refreshRoute(tx, m.appId)
      await poke(tx, 'vm', m.vmId)
    })
  if (m.withVolumes && !isCold(m)) {
    const host = await lastHostOf(desiredStates, m, signal)
    if (host === undefined) return wait(seconds(1))
    if (host === 'target') return go('clearing', tx => settled(tx, m), minutes(10))
  } else if (m.vm && !m.sourceLost) {
    const { migration: observed } = await desiredStates.put(m.vm, signal)
    if (observed?.migrationId === m.id && observed.phase === 'switched' && !m.targetLost)
      return go('switching', switched(m, observed), minutes(5))
    if (observed?.migrationId === m.id && observed.phase === 'copying') return wait(seconds(1))
  }
  if (!m.targetLost && !(await gone(deps, m, m.targetHostId, signal))) return wait(lookAgainMs)
  return done(async tx => {
    if (!m.targetLost) await release(tx, m.targetHostId, m)
    else if (!m.targetRemoved) await abandon(tx, m.targetHostId, { ...m, id: m.vmId })
    await keepVolumes(tx, m)
    await store.end(tx, m.id, m.error === null ? 'cancelled' : 'failed')
    await poke(tx, 'vm', m.vmId)
    await pokeWhoWaited(tx, m)
  })
}

/** Before its route is that of an app that serves nothing, it may pass its health check. */
const isComing = ({ vm, targetLost }: Moving, elapsedMs: number) =>
  vm?.want === 'running' && vm.observedState === 'running' && !vm.healthy && !targetLost && elapsedMs <= comingMs

/** Its route, its deployment; and, where a host is being emptied, those whose VMs are to leave it next. */
async function pokeWhoWaited(tx: Tx, m: Moving): Promise<void> {
  await refreshRoute(tx, m.appId)
  const next = m.sourceDraining ? await deploymentsOnHost(tx, m.sourceHostId) : []
  await pokeMany(tx, 'deployment', [...new Set([m.deploymentId, ...next])])
}

/** With volumes it is the target's from here on, whether it has arrived well or has to start anew. */
const hasSwitched = (m: Moving, observed: MigrationObserved) => {
  if (!m.withVolumes) return go('switching', switched(m, observed), minutes(5))
  const write = async (tx: Tx) => {
    await store.progress(tx, m.id, observed)
    await settled(tx, m)
  }
  return go('clearing', write, minutes(10))
}
/** A guest that writes faster than can be copied is given up; volumes take as long as they are large. */
const limitMs = (m: Moving) => (m.withVolumes ? hours(24) : copyingMs)
const switched = (m: Moving, observed: MigrationObserved) => async (tx: Tx) => {
  await store.progress(tx, m.id, observed)
  await store.enter(tx, m.id, 'switching')
}
const giveUp = (m: Moving, why: string) => async (tx: Tx) => {
  await store.fail(tx, m.id, why)
}
/** It went with the target, and the source has stopped it. The deployment makes another. */
const guestLost = (m: Moving) => async (tx: Tx) => {
  await store.fail(tx, m.id, 'the VM was lost with its target')
  await desiredVm(tx, m.vmId, 'absent')
  await refreshRoute(tx, m.appId)
  await poke(tx, 'vm', m.vmId)
  await poke(tx, 'deployment', m.deploymentId)
}
/** Also when it has crashed since: it is the target's in any case. */
const arrived = ({ state, migration }: VmObserved) =>
  (state === 'running' || state === 'paused' || state === 'crashed') &&
  (migration === undefined || migration.phase === 'switched')

/** Has a host remove its copy of the VM, whatever it last wished there; true once it says so. */
async function gone(deps: MigrationDeps, m: Moving, hostId: string, signal: AbortSignal): Promise<boolean> {
  const agent = agentClient(deps.bus, hostId)
  const observed = await agent.get(m.vmId, signal)
  return observed.state === 'absent' || (await agent.forget(m.vmId, observed.generation)).state === 'absent'
}
