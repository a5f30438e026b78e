/**
 * Moves a running VM: the target prepares to receive it, the source hands it over, one commit assigns the VM to the
 * target, and the source cleans up. Until the source confirms that the guest runs on the target, cancelling leaves the
 * VM on the source; the target's copy is removed only after the source has confirmed that it still has the guest.
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
/** Time limit for the target to report the guest after the source has confirmed that it handed the guest over. */
const arrivalMs = minutes(1)
/** Interval of polls, in case a message is lost. Changes arrive as messages. */
const pollMs = seconds(2)

/** Time during which gateways hold requests for a VM that runs on its new host but is not healthy there yet. */
const comingMs = seconds(30)
const healthMs = 250

type PlacedVm = Vm & { readonly hostId: string }

export interface Moving extends Migration {
  /** The VM; undefined while the VM is being removed. */
  readonly vm: PlacedVm | undefined
  /** The VM, also while it is being removed. */
  readonly row: PlacedVm | undefined
  /** Moves of those volumes of the VM that have to be copied. */
  readonly volumes: readonly VolumeMove[]
  /** Moves of the VM snapshots that depend on these volumes. */
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
  if (m.targetLost || m.sourceLost) return go('cancelling', giveUp(m, 'the source or target host was lost'))
  const trouble = volumesFailed(m)
  if (trouble) return go('cancelling', giveUp(m, trouble))
  // A move by stop-and-copy has no time limit here: copying its volumes takes longer the larger they are.
  if (isCold(m)) return preparingCold(m)
  if (!snapshotsThere(m)) {
    if (nowMs - sinceMs <= coMovedMs) return wait(pollMs)
    return go('cancelling', giveUp(m, 'the snapshots that move with the VM could not be copied in time'))
  }
  if (m.withVolumes && m.coMovedAt === null) return wait(0, async tx => void (await store.coMovedThere(tx, m.id)))
  if (nowMs - (m.coMovedAt?.getTime() ?? sinceMs) > preparingMs)
    return go('cancelling', giveUp(m, 'the target host was not ready to receive the VM in time'))
  if (!volumesAwaited(m)) return wait(pollMs)
  const only = { incoming: { migrationId: m.id }, ...(m.withVolumes ? { disk: diskThere(m) } : {}) }
  const { migration: observed } = await desiredStates.put({ ...m.vm, hostId: m.targetHostId }, signal, only)
  if (observed?.phase === 'failed')
    return go('cancelling', giveUp(m, observed.error ?? 'the target host cannot receive the VM'))
  if (observed?.phase !== 'listening' || !observed.uri) return wait(pollMs)
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
  if (m.sourceLost) return go('cancelling', giveUp(m, 'the source host was lost'))
  const late = lateHold(deps, m, now)
  if (late) return late
  const { migration: observed } = await desiredStates.put(m.vm, signal)
  if (observed?.migrationId === m.id && observed.phase === 'switched') return hasSwitched(m, observed)
  if (m.targetLost) return go('cancelling', giveUp(m, 'the target host was lost'))
  if (elapsedMs > limitMs(m))
    return go('cancelling', giveUp(m, 'the memory of the guest changes faster than it can be copied'))
  if (observed?.phase === 'failed')
    return go('cancelling', giveUp(m, observed.error ?? 'the source host could not send the VM'))
  if (observed?.migrationId === m.id && observed.phase === 'cancelled')
    return go('cancelling', giveUp(m, 'the agent of the source host was stopped'))
  const held = holding(deps, m, observed, now)
  if (held) return held
  return wait(pollMs, async tx => {
    if (observed?.migrationId === m.id) await store.progress(tx, m.id, observed)
  })
}

/** Waits until the guest runs on the target. One commit then assigns the VM to it and switches the traffic. */
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
        throw new Error('the VM is being removed')
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
  if (!m.sourceLost && !(await gone(deps, m, m.sourceHostId, signal))) return wait(pollMs)
  const starting = untilItRuns(m, elapsedMs)
  if (starting) return starting
  if (isComing(m, elapsedMs)) return wait(healthMs)
  return done(async tx => {
    if (!m.sourceLost) await release(tx, m.sourceHostId, m)
    else if (!m.sourceRemoved) await abandon(tx, m.sourceHostId, { ...m, id: m.vmId })
    await store.end(tx, m.id, 'completed')
    await pokeDependents(tx, m)
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
      // A VM with volumes that moves by stop-and-copy may be stopped already. It then starts on the source again.
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
  if (!m.targetLost && !(await gone(deps, m, m.targetHostId, signal))) return wait(pollMs)
  return done(async tx => {
    if (!m.targetLost) await release(tx, m.targetHostId, m)
    else if (!m.targetRemoved) await abandon(tx, m.targetHostId, { ...m, id: m.vmId })
    await keepVolumes(tx, m)
    await store.end(tx, m.id, m.error === null ? 'cancelled' : 'failed')
    await poke(tx, 'vm', m.vmId)
    await pokeDependents(tx, m)
  })
}

/** True while the VM may still become healthy. The migration then stays open, so that gateways hold the VM's requests. */
const isComing = ({ vm, targetLost }: Moving, elapsedMs: number) =>
  vm?.want === 'running' && vm.observedState === 'running' && !vm.healthy && !targetLost && elapsedMs <= comingMs

/**
 * Refreshes the route and pokes the deployment. If the source is drained, also pokes the deployments whose VMs leave it
 * next.
 */
async function pokeDependents(tx: Tx, m: Moving): Promise<void> {
  await refreshRoute(tx, m.appId)
  const next = m.sourceDraining ? await deploymentsOnHost(tx, m.sourceHostId) : []
  await pokeMany(tx, 'deployment', [...new Set([m.deploymentId, ...next])])
}

/** The guest runs on the target. A VM with volumes now belongs to the target, even if it has to start again there. */
const hasSwitched = (m: Moving, observed: MigrationObserved) => {
  if (!m.withVolumes) return go('switching', switched(m, observed), minutes(5))
  const write = async (tx: Tx) => {
    await store.progress(tx, m.id, observed)
    await settled(tx, m)
  }
  return go('clearing', write, minutes(10))
}
/**
 * Time limit of copying the VM. A guest that changes its memory faster than it is copied exceeds the limit. Volumes get
 * more time.
 */
const limitMs = (m: Moving) => (m.withVolumes ? hours(24) : copyingMs)
const switched = (m: Moving, observed: MigrationObserved) => async (tx: Tx) => {
  await store.progress(tx, m.id, observed)
  await store.enter(tx, m.id, 'switching')
}
const giveUp = (m: Moving, why: string) => async (tx: Tx) => {
  await store.fail(tx, m.id, why)
}
/** The guest was lost with the target after the source had stopped its copy. The deployment creates another VM. */
const guestLost = (m: Moving) => async (tx: Tx) => {
  await store.fail(tx, m.id, 'the VM was lost together with the target host')
  await desiredVm(tx, m.vmId, 'absent')
  await refreshRoute(tx, m.appId)
  await poke(tx, 'vm', m.vmId)
  await poke(tx, 'deployment', m.deploymentId)
}
/** True if the guest has arrived on the target, even if it has crashed there since. */
const arrived = ({ state, migration }: VmObserved) =>
  (state === 'running' || state === 'paused' || state === 'crashed') &&
  (migration === undefined || migration.phase === 'switched')

/** Makes a host remove its copy of the VM, whatever the VM's desired state is. Returns true once the host confirms. */
async function gone(deps: MigrationDeps, m: Moving, hostId: string, signal: AbortSignal): Promise<boolean> {
  const agent = agentClient(deps.bus, hostId)
  const observed = await agent.get(m.vmId, signal)
  return observed.state === 'absent' || (await agent.forget(m.vmId, observed.generation)).state === 'absent'
}
