/**
 * What hosts say by themselves. Beats: that a host is there, what it offers, the numbers of its VMs and, now and then,
 * all it has. Observations: a VM changed. Nothing here decides anything; machines are poked and decide.
 */
import { Value } from 'typebox/value'
import type { Subscription } from '../../bus/bus.ts'
import { HostBeat, SnapshotObserved, VmObserved, subjects } from '../../contract/agent.ts'
import { poke } from '../../engine/runner.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Deps } from '../deps.ts'
import { type LiveStats, agentClient, recordBeat, settleStrays, touchHosts } from '../hosts/index.ts'
import { isNews, pokeWaiting, recordSeen, recordSnapshot, seenOnHost } from '../vms/index.ts'

/** Beats of many hosts become one UPDATE this often. */
const flushMs = 1000

type ReceiverDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'clock' | 'log'> & { readonly live: LiveStats }

export async function startHostReceiver(deps: ReceiverDeps): Promise<Subscription> {
  /** Incarnation and offer of each host as last written, so that an unchanged beat costs no more than its place in a batch. */
  const known = new Map<string, string>()
  const heard = new Set<string>()

  const onBeat = async (beat: HostBeat) => {
    const description = JSON.stringify({ ...beat, vms: null, stats: null })
    if (known.get(beat.hostId) !== description) {
      await recordBeat(deps.db, beat, deps.config.cpuOvercommit)
      known.set(beat.hostId, description)
      await pokeWaiting(deps.db)
    }
    heard.add(beat.hostId)
    if (beat.vms) await reconcileHost(deps, beat.hostId, beat.vms)
  }
  const flush = async () => {
    deps.live.prune(deps.clock.now().getTime())
    const hostIds = [...heard]
    heard.clear()
    if (hostIds.length > 0) await touchHosts(deps.db, hostIds)
  }
  const timer = setInterval(() => {
    flush().catch((cause: unknown) => deps.log.warn({ err: cause }, 'could not record the beats of hosts'))
  }, flushMs)

  // Every control plane holds the live numbers; one of them writes what is to be written.
  const numbers = await deps.bus.subscribe(subjects.allBeats, message =>
    deps.live.record(Value.Parse(HostBeat, message.data), deps.clock.now().getTime()),
  )
  const beats = await deps.bus.subscribe(subjects.allBeats, message => onBeat(Value.Parse(HostBeat, message.data)), {
    group: 'control',
  })
  const observations = await deps.bus.subscribe(
    subjects.allSeen,
    async message => {
      const seen = Value.Parse(VmObserved, message.data)
      const hostId = message.subject.split('.')[1]!
      await deps.db.tx(async tx => {
        await recordSeen(tx, hostId, seen)
        if (seen.migration && isUuid(seen.migration.migrationId))
          await poke(tx, 'migration', seen.migration.migrationId)
      })
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
  return {
    async stop() {
      clearInterval(timer)
      await snapshots.stop()
      await numbers.stop()
      await beats.stop()
      await observations.stop()
    },
  }
}

/** Everything a host has, against what it should have: lost messages are made good, strangers are removed. */
export async function reconcileHost(
  deps: Pick<Deps, 'db' | 'bus' | 'log'>,
  hostId: string,
  vms: readonly VmObserved[],
): Promise<void> {
  const present = vms.filter(vm => vm.state !== 'absent').map(vm => vm.vmId)
  if ((await settleStrays(deps.db, hostId, present)) > 0) await pokeWaiting(deps.db)
  const owned = await seenOnHost(deps.db, hostId)
  for (const seen of vms) {
    const known = owned.get(seen.vmId)
    if (known) {
      if (isNews(known, seen)) await deps.db.tx(tx => recordSeen(tx, hostId, seen))
    } else if (seen.state !== 'absent') {
      deps.log.info({ hostId, vmId: seen.vmId }, 'a host has a VM that is not its own any more; removing it')
      await agentClient(deps.bus, hostId).forget(seen.vmId, seen.generation)
    }
  }
}
