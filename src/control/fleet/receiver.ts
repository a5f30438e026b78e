/**
 * Receives the messages that hosts send by themselves. A heartbeat reports that the host is alive, what it offers, the
 * metrics of its VMs and, periodically, all of its VMs. An observation reports that a VM has changed. This file decides
 * nothing: it pokes the workflows that do.
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

const notUnderstood = 'a newer host offers features that this control plane does not know; they are not used'

/** Interval at which the heartbeats of all hosts are written, as one UPDATE. */
const flushMs = 1000

type ReceiverDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'clock' | 'log'> & { readonly live: LiveStats }

export async function startHostReceiver(deps: ReceiverDeps): Promise<Subscription> {
  /** The last written description of each host. A heartbeat with the same description needs no statement of its own. */
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
  // Every control plane keeps the live metrics in memory; only one of them writes each heartbeat to the database.
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
    flush().catch((cause: unknown) => deps.log.warn({ err: cause }, 'could not record the heartbeats of hosts'))
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

/** Receives reports about volumes, their snapshots and their usage. */
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

/**
 * Parses a heartbeat. @throws Error when a host reports for another one: the bus lets each host publish only under its
 * own subject
 */
function ownHeartbeat({ subject, data }: Message): ReadHeartbeat {
  const read = readHeartbeat(data)
  const { hostId } = read.heartbeat
  if (subject !== subjects.heartbeat(hostId)) throw new Error(`a heartbeat of ${hostId} arrived as ${subject}`)
  return read
}

/**
 * Releases the resources of a stray VM (one that was given up with its lost host) as soon as the host reports it gone,
 * without waiting for the next full heartbeat. Queries the host again, because the report may be delayed, from a time
 * before the host had the VM.
 */
async function settleGone(deps: Pick<Deps, 'db' | 'bus'>, hostId: string, vmId: string): Promise<void> {
  if (!isUuid(vmId) || !(await isStray(deps.db, hostId, vmId))) return
  const { state } = await agentClient(deps.bus, hostId).get(vmId)
  if (state === 'absent' && (await settleStray(deps.db, hostId, vmId))) await pokeWaiting(deps.db)
}

/**
 * Compares all VMs of a host with those that it should have: pokes the VMs about which a message was lost, and removes
 * VMs that no longer belong to the host.
 * @param generations stored generations of VMs, from `ReadHeartbeat.generations`
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
  // VMs that the host does not have, or has with an older generation: their workflows query the host now, even during a
  // back-off.
  if (behind.length > 0) await pokeMany(deps.db, 'vm', behind)
  for (const observed of vms) {
    const known = owned.get(observed.vmId)
    if (known) {
      // Generation 0 marks a VM that the host has but cannot inspect, because it no longer offers the VM's hypervisor.
      // It is unknown whether that VM runs, so the report must not count, not even for a VM whose stored generation is
      // 0 because it was never observed.
      if (observed.generation > 0 && isNews(known, observed))
        await deps.db.tx(tx => recordObserved(tx, hostId, observed))
    } else if (observed.state !== 'absent') {
      deps.log.info({ hostId, vmId: observed.vmId }, 'a host has a VM that no longer belongs to it; removing it')
      // A failed removal must not block the other reports. The next full heartbeat retries.
      await agentClient(deps.bus, hostId)
        .forget(observed.vmId, generations.get(observed.vmId) ?? observed.generation)
        .catch((err: unknown) => deps.log.warn({ hostId, vmId: observed.vmId, err }, 'the host did not remove the VM'))
    }
  }
}
