import type { Deps } from '../base/deps.ts'
import type { LiveStats } from '../hosts/index.ts'
import { invalidField } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { pokeVm, setBalloon, type vmOperations } from '../vms/index.ts'
import { jobOf, lockedJob, placedVm, requireCapability } from './job.ts'

type BalloonOperations = Pick<typeof vmOperations, 'getBalloon' | 'setBalloon'>

/**
 * Smallest memory to which a VM can be reduced: enough for the guest's kernel and a program. The agent's own minimum
 * is not higher.
 */
export const balloonFloorMib = 128

export const balloonHandlers = (
  deps: Pick<Deps, 'db' | 'config'> & { readonly live: LiveStats },
): Handlers<BalloonOperations> => ({
  getBalloon: {
    read: async call => {
      const d = await jobOf(deps.db, call)
      const placed = await placedVm(deps, deps.db, d)
      requireCapability(placed, 'balloon')
      return viewOf(d.memoryMib, placed.vm.balloonTargetMib, deps.live.get(placed.vm.id)?.balloonActualMib)
    },
  },
  setBalloon: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const placed = await placedVm(deps, tx, d)
      requireCapability(placed, 'balloon')
      const target = call.body.target_memory_mib
      if (target < balloonFloorMib || target > d.memoryMib)
        throw invalidField(
          'target_memory_mib',
          `must be from ${balloonFloorMib} to ${d.memoryMib}, the memory of the VM`,
        )
      for (const vmId of await setBalloon(tx, d.id, target)) await pokeVm(tx, vmId)
      call.audit({
        action: 'balloon.set',
        resourceType: 'deployment',
        resourceId: d.id,
        details: { target_memory_mib: target },
      })
      return viewOf(d.memoryMib, target, deps.live.get(placed.vm.id)?.balloonActualMib)
    },
  },
})

const viewOf = (memoryMib: number, targetMib: number | null, actualMib: number | undefined) => ({
  target_memory_mib: targetMib ?? memoryMib,
  actual_memory_mib: actualMib ?? memoryMib,
  memory_mib: memoryMib,
  floor_mib: balloonFloorMib,
})
