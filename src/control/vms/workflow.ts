/**
 * The workflow of one VM: finds a host and reserves resources there, then has the host's agent reach the desired state
 * and checks the result. At the end, it has the agent remove the VM and releases the resources. The deployment's
 * workflow decides which VMs exist.
 */
import type { VmObserved } from '../../contract/agent.ts'
import { type Next, done, go, workflow, wait } from '../../engine/workflow.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
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
import * as placement from './placement-store.ts'
import * as store from './store.ts'
import type { Vm } from './store.ts'

/** Interval at which a VM without a host tries to find one again, because capacity may become free without a poke. */
const placementRetryMs = seconds(2)
/**
 * Delay before the next attempt to place a VM if another transaction had locked its deployment or took the capacity.
 */
const outrunRetryMs = 50
/**
 * Interval at which the workflow queries the host. Changes poke the workflow, so polling is only for messages that
 * were lost in a crash.
 */
const pollMs = seconds(5)
/**
 * Interval at which the workflow queries the host of a VM that has reached its desired state. It is long, because
 * hosts report all their VMs every 15 seconds, and any difference pokes the workflow.
 */
const steadyPollMs = minutes(10)

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
        // VMs are placed in a transaction shared with other VMs, which does not check this step's fence. This is safe,
        // because its UPDATE only places a VM that has no host and is not being removed.
        const outcome = await placeVm(vm)
        switch (outcome.is) {
          case 'placed':
            return go('starting', undefined, minutes(10))
          case 'outrun':
            return wait(outrunRetryMs)
          case 'unpinned':
            return wait(0, async tx => {
              await placement.bootInstead(tx, vm.id)
            })
          case 'nowhere':
            return wait(placementRetryMs, async tx => {
              await placement.explainPlacement(tx, vm.id, outcome.why)
            })
        }
      },

      async starting({ subject: vm, signal }) {
        const hostId = placed(vm)
        if (vm.disksPending)
          return wait(pollMs, async tx => {
            await placement.explainPlacement(
              tx,
              vm.id,
              vm.diskFailure ?? 'The host is preparing the volumes of the VM.',
            )
          })
        const observed = await desiredStates.put({ ...vm, hostId }, signal)
        const record = async (tx: Parameters<typeof recordObserved>[0]) => {
          await recordObserved(tx, hostId, observed, vm.observedCount)
        }
        return reached(vm, observed) ? go('steady', record) : wait(pollMs, record)
      },

      async steady({ subject: vm, signal }): Promise<Next<'starting' | 'removing'>> {
        if (vm.observedGeneration < vm.generation) return go('starting', undefined, minutes(10))
        const hostId = placed(vm)
        const observed: VmObserved = await agentClient(deps.bus, hostId).get(vm.id, signal)
        // Send the desired state again in two cases. `absent`: the host has lost its disk, and with it the VM.
        // `volume_locked`: a restarted agent needs the keys of encrypted volumes again.
        if (observed.state === 'absent' || observed.error?.code === 'volume_locked')
          return go('starting', undefined, minutes(10))
        return wait(steadyPollMs, async tx => {
          await recordObserved(tx, hostId, observed, vm.observedCount)
        })
      },

      async removing({ subject: vm, enteredAt, now, signal }) {
        const { hostId } = vm
        // Wait until it is decided which host has the current content of the VM's volumes after a migration.
        if (vm.takesVolumes) return wait(pollMs)
        // The route no longer leads to this VM. Give open requests time to finish.
        const drainMs = enteredAt.getTime() + seconds(vm.drainSeconds) - now.getTime()
        if (drainMs > 0 && !vm.hostLost) return wait(Math.min(drainMs, pollMs))
        if (hostId && !vm.hostLost) {
          const observed = await desiredStates.put({ ...vm, hostId }, signal)
          if (!reached(vm, observed)) return wait(pollMs)
        }
        return done(async tx => {
          if (hostId) await (vm.hostLost ? abandonRoom(tx, hostId, vm) : release(tx, hostId, vm))
          await releaseDisks(tx, vm.id)
          await store.remove(tx, vm.id)
          await pokeWaiting(tx)
          await refreshRoute(tx, vm.appId)
          await poke(tx, 'deployment', vm.deploymentId)
          if (vm.oneAtATime) await pokeMany(tx, 'deployment', await store.deploymentsOf(tx, vm.appId))
          if (vm.run) await poke(tx, 'run', vm.run.id)
        })
      },
    },
  })
}

/** Loads several VMs in one statement. Separate statements would take twice the CPU time of the database. */
async function loadAll(db: Db, ids: readonly string[]): Promise<(Vm | undefined)[]> {
  const found = new Map((await store.byIds(db, ids)).map(vm => [vm.id, vm]))
  return ids.map(id => found.get(id))
}

/**
 * Keeps the VM's resources on a lost host reserved until the host reports that the VM is gone, because the VM may
 * still run. A removed host never reports again, so nothing stays reserved on it.
 */
async function abandonRoom(tx: Tx, hostId: string, vm: Vm): Promise<void> {
  if (!vm.hostRemoved) await abandon(tx, hostId, vm)
}

function placed(vm: Vm): string {
  if (!vm.hostId) throw new Error(`BUG: vm ${vm.id} is past placing without a host`)
  return vm.hostId
}
