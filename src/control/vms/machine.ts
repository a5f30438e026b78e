/**
 * The life of one VM: find a host and reserve room on it, have the agent make the wish true, keep looking, and at the
 * end have the agent remove everything and give the room back. Which VMs there are is the deployment's business.
 */
import type { VmObserved } from '../../contract/agent.ts'
import { type Next, done, go, machine, wait } from '../../engine/machine.ts'
import { poke } from '../../engine/runner.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../deps.ts'
import { abandon, agentClient, createCandidates, listHosts, release, reserve } from '../hosts/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { explain, place, type PlacementRequest } from '../scheduler/place.ts'
import { claimDisks, diskNeeds, hostsWithout, releaseDisks } from './disks.ts'
import { hypervisorName, reached } from './rules.ts'
import { vmWishes } from './wish.ts'
import { pokeWaiting } from './waiting.ts'
import { recordSeen } from './seen.ts'
import * as store from './store.ts'
import type { Vm } from './store.ts'

/** Room may appear any time without a poke; this is how long a waiting VM may miss it. */
const placementRetryMs = seconds(2)
/** Changes come by pokes; this look is only for what a message that died with its program would have hidden. */
const lookAgainMs = seconds(5)
/** A host lists all it has every 15 seconds, and what is not as it should be is poked then. */
const steadyLookMs = minutes(10)

export const vmMachine = (deps: Pick<Deps, 'db' | 'bus' | 'config' | 'vault' | 'clock'>) => {
  const wishes = vmWishes(deps)
  const candidates = createCandidates(() => listHosts(deps.db, deps.config.hostTimeoutSeconds), deps.clock)

  return machine<Vm>()({
    kind: 'vm',
    edges: {
      placing: ['starting', 'removing'],
      starting: ['steady', 'removing'],
      steady: ['starting', 'removing'],
      removing: [],
    },
    load: id => store.byId(deps.db, id),
    preempt: vm => (vm.want === 'absent' ? 'removing' : undefined),
    phases: {
      async placing({ subject: vm }) {
        if (vm.hostId) return go('starting', undefined, minutes(10))
        const siblings = await store.hostsOfSiblings(deps.db, vm)
        const disks = await diskNeeds(deps.db, vm.id)
        const { obstacle } = disks
        if (obstacle)
          return wait(placementRetryMs, async tx => {
            await store.explainPlacement(tx, vm.id, obstacle)
          })
        const propose = async (fresh: boolean) => {
          const hosts = await candidates.list(fresh)
          const withoutStorage = hostsWithout(
            disks,
            hosts.map(one => one.id),
          )
          const near = new Set([...siblings, ...candidates.proposedFor(vm.deploymentId)])
          return place(hosts, requestFor(vm, near, withoutStorage, disks.pinnedTo))
        }
        let placement = await propose(false)
        // What was known may be too old for a no.
        if (!placement.host) placement = await propose(true)
        const { host } = placement
        if (!host && vm.pinnedHostId && !vm.fromRequired)
          return wait(0, async tx => {
            await store.bootInstead(tx, vm.id)
          })
        if (!host)
          return wait(placementRetryMs, async tx => {
            await store.explainPlacement(tx, vm.id, explain(placement))
          })
        candidates.propose(host.id, vm)
        return go(
          'starting',
          async tx => {
            // Replicas are placed at the same time: whoever commits second looks again.
            if (!siblings.has(host.id) && (await store.siblingsNow(tx, vm)).has(host.id))
              throw new Error(`a sibling went to host ${host.name} meanwhile`)
            if (!(await reserve(tx, host.id, vm))) {
              candidates.forget()
              throw new Error(`host ${host.name} filled up meanwhile`)
            }
            if (!(await store.assign(tx, vm.id, host.id, host.hypervisor)))
              throw new Error(`BUG: vm ${vm.id} placed twice`)
            await claimDisks(tx, vm.id, host.id, disks)
            await poke(tx, 'deployment', vm.deploymentId)
          },
          minutes(10),
        )
      },

      async starting({ subject: vm, signal }) {
        const hostId = placed(vm)
        if (vm.disksPending)
          return wait(lookAgainMs, async tx => {
            await store.explainPlacement(tx, vm.id, 'Its volumes are being made ready on its host.')
          })
        const seen = await wishes.put({ ...vm, hostId }, signal)
        const record = async (tx: Parameters<typeof recordSeen>[0]) => {
          await recordSeen(tx, hostId, seen, vm.seenCount)
        }
        return reached(vm, seen) ? go('steady', record) : wait(lookAgainMs, record)
      },

      async steady({ subject: vm, signal }): Promise<Next<'starting' | 'removing'>> {
        if (vm.seenGeneration < vm.generation) return go('starting', undefined, minutes(10))
        const hostId = placed(vm)
        const seen: VmObserved = await agentClient(deps.bus, hostId).get(vm.id, signal)
        // A host that lost its disk knows nothing of the VM: tell it again.
        // An agent that has started anew has to be told the keys of encrypted volumes again.
        if (seen.state === 'absent' || seen.error?.code === 'volume_locked')
          return go('starting', undefined, minutes(10))
        return wait(steadyLookMs, async tx => {
          await recordSeen(tx, hostId, seen, vm.seenCount)
        })
      },

      async removing({ subject: vm, enteredAt, now, signal }) {
        const { hostId } = vm
        // One of several that serve: the route has left it, what it is still answering may end.
        const drainMs = enteredAt.getTime() + seconds(vm.drainSeconds) - now.getTime()
        if (drainMs > 0 && !vm.hostLost) return wait(Math.min(drainMs, lookAgainMs))
        if (hostId && !vm.hostLost) {
          const seen = await wishes.put({ ...vm, hostId }, signal)
          if (!reached(vm, seen)) return wait(lookAgainMs)
        }
        return done(async tx => {
          if (hostId) await (vm.hostLost ? abandonRoom(tx, hostId, vm) : release(tx, hostId, vm))
          await releaseDisks(tx, vm.id)
          await store.remove(tx, vm.id)
          await pokeWaiting(tx)
          await refreshRoute(tx, vm.appId)
          await poke(tx, 'deployment', vm.deploymentId)
        })
      },
    },
  })
}

const requestFor = (
  vm: Vm,
  siblings: ReadonlySet<string>,
  withoutStorage: ReadonlySet<string>,
  diskHost: string | undefined,
): PlacementRequest => {
  const pinnedTo = vm.pinnedHostId ?? diskHost
  return {
    hypervisor: hypervisorName(vm.requestedHypervisor),
    ...{ vcpus: vm.vcpus, memoryMib: vm.memoryMib, diskMib: vm.diskMib, siblings, withoutStorage },
    ...(pinnedTo ? { pinnedTo } : {}),
  }
}

/** A lost host may still run it: its room stays taken until the host says otherwise. A removed one is never asked again. */
async function abandonRoom(tx: Tx, hostId: string, vm: Vm): Promise<void> {
  if (!vm.hostRemoved) await abandon(tx, hostId, vm)
}

function placed(vm: Vm): string {
  if (!vm.hostId) throw new Error(`BUG: vm ${vm.id} is past placing without a host`)
  return vm.hostId
}
