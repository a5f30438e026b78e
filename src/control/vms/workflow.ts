/**
 * The life of one VM: find a host and reserve room on it, have the agent make the wish true, keep looking, and at the
 * end have the agent remove everything and give the room back. Which VMs there are is the deployment's business.
 */
import type { VmObserved } from '../../contract/agent.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke } from '../../engine/runner.ts'
import { batched } from '../../lib/batched.ts'
import { minutes, seconds } from '../../lib/duration.ts'
import type { Db, Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { abandon, agentClient, release } from '../hosts/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { releaseDisks } from './disks.ts'
import { createPlacer } from './placer.ts'
import { reached } from './rules.ts'
import { desiredVms } from './desired.ts'
import { pokeWaiting } from './waiting.ts'
import { recordObserved } from './observed.ts'
import * as store from './store.ts'
import type { Vm } from './store.ts'

/** Room may appear any time without a poke; this is how long a waiting VM may miss it. */
const placementRetryMs = seconds(2)
/** Somebody else held its deployment, or took the room. */
const outrunRetryMs = 50
/** Changes come by pokes; this look is only for what a message that died with its program would have hidden. */
const lookAgainMs = seconds(5)
/** A host lists all it has every 15 seconds, and what is not as it should be is poked then. */
const steadyLookMs = minutes(10)

export const vmWorkflow = (deps: Pick<Deps, 'db' | 'bus' | 'config' | 'vault' | 'clock'>) => {
  const desiredStates = desiredVms(deps)
  const placeVm = createPlacer(deps)
  const load = batched((ids: readonly string[]) => loadAll(deps.db, ids), { most: 64, atOnce: 4 })

  return workflow<Vm>()({
    kind: 'vm',
    edges: {
      placing: ['starting', 'removing'],
      starting: ['steady', 'removing'],
      steady: ['starting', 'removing'],
      removing: [],
    },
    load,
    preempt: vm => (vm.want === 'absent' ? 'removing' : undefined),
    phases: {
      async placing({ subject: vm }) {
        if (vm.hostId) return go('starting', undefined, minutes(10))
        // In a transaction of its own, with others: behind the fence of this step it could not be. It is done once, since only
        // a VM without a host is given one, and one that is to go is given none.
        const outcome = await placeVm(vm)
        switch (outcome.is) {
          case 'placed':
            return go('starting', undefined, minutes(10))
          case 'outrun':
            return wait(outrunRetryMs)
          case 'unpinned':
            return wait(0, async tx => {
              await store.bootInstead(tx, vm.id)
            })
          case 'nowhere':
            return wait(placementRetryMs, async tx => {
              await store.explainPlacement(tx, vm.id, outcome.why)
            })
        }
      },

      async starting({ subject: vm, signal }) {
        const hostId = placed(vm)
        if (vm.disksPending)
          return wait(lookAgainMs, async tx => {
            await store.explainPlacement(tx, vm.id, vm.diskFailure ?? 'Its volumes are being made ready on its host.')
          })
        const observed = await desiredStates.put({ ...vm, hostId }, signal)
        const record = async (tx: Parameters<typeof recordObserved>[0]) => {
          await recordObserved(tx, hostId, observed, vm.observedCount)
        }
        return reached(vm, observed) ? go('steady', record) : wait(lookAgainMs, record)
      },

      async steady({ subject: vm, signal }): Promise<Next<'starting' | 'removing'>> {
        if (vm.observedGeneration < vm.generation) return go('starting', undefined, minutes(10))
        const hostId = placed(vm)
        const observed: VmObserved = await agentClient(deps.bus, hostId).get(vm.id, signal)
        // A host that lost its disk knows nothing of the VM: tell it again.
        // An agent that has started anew has to be told the keys of encrypted volumes again.
        if (observed.state === 'absent' || observed.error?.code === 'volume_locked')
          return go('starting', undefined, minutes(10))
        return wait(steadyLookMs, async tx => {
          await recordObserved(tx, hostId, observed, vm.observedCount)
        })
      },

      async removing({ subject: vm, enteredAt, now, signal }) {
        const { hostId } = vm
        // Whichever host has run it last has what its volumes hold: that is asked first.
        if (vm.takesVolumes) return wait(lookAgainMs)
        // One of several that serve: the route has left it, what it is still answering may end.
        const drainMs = enteredAt.getTime() + seconds(vm.drainSeconds) - now.getTime()
        if (drainMs > 0 && !vm.hostLost) return wait(Math.min(drainMs, lookAgainMs))
        if (hostId && !vm.hostLost) {
          const observed = await desiredStates.put({ ...vm, hostId }, signal)
          if (!reached(vm, observed)) return wait(lookAgainMs)
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

/** What a claim brings is loaded together: a statement for each costs twice the time of the database. */
async function loadAll(db: Db, ids: readonly string[]): Promise<(Vm | undefined)[]> {
  const found = new Map((await store.byIds(db, ids)).map(vm => [vm.id, vm]))
  return ids.map(id => found.get(id))
}

/** A lost host may still run it: its room stays taken until the host says otherwise. A removed one is never asked again. */
async function abandonRoom(tx: Tx, hostId: string, vm: Vm): Promise<void> {
  if (!vm.hostRemoved) await abandon(tx, hostId, vm)
}

function placed(vm: Vm): string {
  if (!vm.hostId) throw new Error(`BUG: vm ${vm.id} is past placing without a host`)
  return vm.hostId
}
