/**
 * What hosts say by themselves. Beats: that a host is there, what it offers, the numbers of its VMs and, now and then,
 * all it has. Observations: a VM changed. Nothing here decides anything; machines are poked and decide.
 */
import { Value } from 'typebox/value'
import type { Message, Subscription } from '../../bus/bus.ts'
import {
  SnapshotObserved,
  VmObserved,
  VolumeObserved,
  VolumeSnapshotObserved,
  VolumeUsages,
  subjects,
} from '../../contract/agent.ts'
import { type ReadHeartbeat, readHeartbeat } from '../../contract/tolerant.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../base/deps.ts'
import {
  type LiveStats,
  agentClient,
  isStray,
  recordHeartbeat,
  settleStray,
  settleStrays,
  touchHosts,
} from '../hosts/index.ts'
import { isNews, pokeWaiting, recordObserved, recordSnapshot, observedOnHost } from '../vms/index.ts'
import { recordUsages, recordVolume, recordVolumeSnapshot } from '../volumes/index.ts'

const notUnderstood = 'a host offers what this control plane does not know: it is newer, and that is not used'

/** Beats of many hosts become one UPDATE this often. */
const flushMs = 1000

type ReceiverDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'clock' | 'log'> & { readonly live: LiveStats }

export async function startHostReceiver(deps: ReceiverDeps): Promise<Subscription> {
  /** Incarnation and offer of each host as last written, so that an unchanged beat costs no more than its place in a batch. */
  const known = new Map<string, string>()
  const heard = new Set<string>()

  const reported = new Set<string>()

  const onHeartbeat = async ({ heartbeat, unknown, generations }: ReadHeartbeat) => {
    for (const what of unknown) {
      const words = `${heartbeat.hostId} ${what}`
      if (!reported.has(words))
        deps.log.warn({ hostId: heartbeat.hostId, version: heartbeat.version, what }, notUnderstood)
      reported.add(words)
    }
    const description = JSON.stringify({ ...heartbeat, vms: null, stats: null, privateNetwork: null })
    if (known.get(heartbeat.hostId) !== description) {
      await recordHeartbeat(deps.db, heartbeat, deps.config.cpuOvercommit)
      known.set(heartbeat.hostId, description)
      await pokeWaiting(deps.db)
    }
    heard.add(heartbeat.hostId)
    if (heartbeat.vms) await reconcileHost(deps, heartbeat.hostId, heartbeat.vms, generations)
  }
  const flush = async () => {
    deps.live.prune(deps.clock.now().getTime())
    const hostIds = [...heard]
    heard.clear()
    if (hostIds.length > 0) await touchHosts(deps.db, hostIds)
  }
  // Every control plane holds the live numbers; one of them writes what is to be written.
  const numbers = await deps.bus.subscribe(subjects.allHeartbeats, message =>
    deps.live.record(ownHeartbeat(message).heartbeat, deps.clock.now().getTime()),
  )
  const heartbeats = await deps.bus.subscribe(subjects.allHeartbeats, message => onHeartbeat(ownHeartbeat(message)), {
    group: 'control',
  })
  const observations = await deps.bus.subscribe(
    subjects.allObserved,
    async message => {
      const observed = Value.Parse(VmObserved, message.data)
      const hostId = message.subject.split('.')[1]!
      const isNew = await deps.db.tx(async tx => {
        if (observed.migration && isUuid(observed.migration.migrationId))
          await poke(tx, 'migration', observed.migration.migrationId)
        return recordObserved(tx, hostId, observed)
      })
      if (!isNew && observed.state === 'absent') await settleGone(deps, hostId, observed.vmId)
    },
    { group: 'control' },
  )
  const snapshots = await deps.bus.subscribe(
    subjects.allSnapshots,
    async message => {
      const hostId = message.subject.split('.')[1]!
      await deps.db.tx(tx => recordSnapshot(tx, hostId, Value.Parse(SnapshotObserved, message.data)))
    },
    { group: 'control' },
  )
  const storage = await listenForVolumes(deps)
  const timer = setInterval(() => {
    flush().catch((cause: unknown) => deps.log.warn({ err: cause }, 'could not record the beats of hosts'))
  }, flushMs)
  return {
    async stop() {
      clearInterval(timer)
      for (const subscription of storage) await subscription.stop()
      await snapshots.stop()
      await numbers.stop()
      await heartbeats.stop()
      await observations.stop()
    },
  }
}

/** What hosts say of volumes, their snapshots, and how much they take. */
async function listenForVolumes({ db, bus }: Pick<ReceiverDeps, 'db' | 'bus'>): Promise<Subscription[]> {
  const control = { group: 'control' }
  const hostOf = (subject: string) => subject.split('.')[1] ?? ''
  return [
    await bus.subscribe(
      subjects.allVolumes,
      ({ data }) => db.tx(tx => recordVolume(tx, Value.Parse(VolumeObserved, data))),
      control,
    ),
    await bus.subscribe(
      subjects.allVolumeSnapshots,
      ({ subject, data }) =>
        db.tx(tx => recordVolumeSnapshot(tx, hostOf(subject), Value.Parse(VolumeSnapshotObserved, data))),
      control,
    ),
    await bus.subscribe(
      subjects.allVolumeUsages,
      async ({ subject, data }) => {
        await recordUsages(db, hostOf(subject), Value.Parse(VolumeUsages, data).volumes)
      },
      control,
    ),
  ]
}

/** @throws Error when it speaks for another host: the bus lets each publish under its own subject only */
function ownHeartbeat({ subject, data }: Message): ReadHeartbeat {
  const read = readHeartbeat(data)
  const { hostId } = read.heartbeat
  if (subject !== subjects.heartbeat(hostId)) throw new Error(`a beat of ${hostId} came as ${subject}`)
  return read
}

/**
 * A host says that it has let go of a VM which is not its own any more: its room is free at once, and not with the next full beat.
 * The host is asked: what it says by itself may be late, and of an earlier time when it had the VM.
 */
async function settleGone(deps: Pick<Deps, 'db' | 'bus'>, hostId: string, vmId: string): Promise<void> {
  if (!isUuid(vmId) || !(await isStray(deps.db, hostId, vmId))) return
  const { state } = await agentClient(deps.bus, hostId).get(vmId)
  if (state === 'absent' && (await settleStray(deps.db, hostId, vmId))) await pokeWaiting(deps.db)
}

/**
 * Everything a host has, against what it should have: lost messages are made good, strangers are removed.
 * @param generations `ReadHeartbeat.generations`
 */
export async function reconcileHost(
  deps: Pick<Deps, 'db' | 'bus' | 'log'>,
  hostId: string,
  vms: readonly VmObserved[],
  generations: ReadHeartbeat['generations'] = new Map(),
): Promise<void> {
  const present = vms.filter(vm => vm.state !== 'absent').map(vm => vm.vmId)
  if ((await settleStrays(deps.db, hostId, present)) > 0) await pokeWaiting(deps.db)
  const owned = await observedOnHost(deps.db, hostId)
  const reported = new Map(vms.map(vm => [vm.vmId, vm.generation]))
  const behind = [...owned.values()].filter(vm => (reported.get(vm.id) ?? -1) < vm.generation).map(vm => vm.id)
  // Not there yet, gone already, or not told of the newest wish: whoever waits for it, or pauses after failures, asks now.
  if (behind.length > 0) await pokeMany(deps.db, 'vm', behind)
  for (const observed of vms) {
    const known = owned.get(observed.vmId)
    if (known) {
      // Of generation 0 is what a host has and cannot look at (a VM whose hypervisor it no longer offers): whether that runs is
      // not known, so it must not count as news of a VM of which nothing was seen yet, whose generation is 0, too.
      if (observed.generation > 0 && isNews(known, observed))
        await deps.db.tx(tx => recordObserved(tx, hostId, observed))
    } else if (observed.state !== 'absent') {
      deps.log.info({ hostId, vmId: observed.vmId }, 'a host has a VM that is not its own any more; removing it')
      // One that cannot be removed now must not keep the news of the others; the next full beat names it again.
      await agentClient(deps.bus, hostId)
        .forget(observed.vmId, generations.get(observed.vmId) ?? observed.generation)
        .catch((err: unknown) => deps.log.warn({ hostId, vmId: observed.vmId, err }, 'the host did not remove the VM'))
    }
  }
}
