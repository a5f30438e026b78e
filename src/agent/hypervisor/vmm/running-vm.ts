import { encodeWord } from '../../../lib/words.ts'
import type { RunningVm } from '../driver.ts'
import { balloonTarget, type Vmm } from '../running-vm.ts'
import { hasMark } from '../transfer/marks.ts'
import { untilThere } from '../until-there.ts'
import type { Platform, VmContext, VmmControl } from './platform.ts'
import { takeSnapshot } from './snapshot.ts'

/** Implements the `Vmm` interface of `runningVmOf` for a VMM with an HTTP API. */
export function vmmOf(platform: Platform, vm: VmContext): Omit<Vmm, 'closed' | 'close'> {
  const { api, memoryMib, vmDir } = vm
  const control = platform.control(vm)
  return {
    inspect: () => platform.inspect(api),
    pause: () => platform.setPaused(api, true),
    resume: () => (hasMark(vmDir, 'left') ? Promise.reject(runsElsewhere()) : platform.setPaused(api, false)),
    readMemory: control.readMemory,
    // VMMs set the memory that the balloon takes; `setBalloon` gets the memory that the guest keeps.
    setBalloon: targetMib => control.setTakenMib(memoryMib - balloonTarget(targetMib, memoryMib)),
    snapshot: (target, logSeq) => takeSnapshot(platform, vm, control, target, logSeq),
    ...volumesOf(vm, control),
    handOver: control.handOver,
    hasLeft: () => Promise.resolve(hasMark(vmDir, 'left')),
  }
}

function runsElsewhere(): Error {
  return new Error('the VM runs on another host')
}

/** Timeout for mounting a volume; for a VM's first volume, this includes loading kernel modules. */
const mountMs = 5_000
/** Timeout for growing a file system; growing a large one writes many new block groups. */
const growMs = 60_000

/** Volume operations of a VM. The VMM knows which disk belongs to which volume, so the agent stores nothing. */
function volumesOf(
  { guest }: VmContext,
  { volumes }: VmmControl,
): Required<Pick<RunningVm, 'attachDisk' | 'detachDisk' | 'growDisk'>> {
  return {
    async attachDisk({ volumeId, readOnly, mountPoint }, file) {
      const serial = (await volumes.find(volumeId)) ?? (await volumes.insert(volumeId, file, readOnly))
      const line = `mount ${serial} ${readOnly ? 'ro' : 'rw'} ${encodeWord(mountPoint)}`
      await untilThere(() => guest.request(line, mountMs))
    },
    async growDisk({ volumeId, mountPoint }, sizeMib) {
      const serial = await volumes.find(volumeId)
      if (serial === undefined) return
      await volumes.grow(volumeId, sizeMib)
      await untilThere(() => guest.request(`grow ${serial} ${encodeWord(mountPoint)} ${sizeMib}`, growMs))
    },
    async detachDisk({ volumeId, mountPoint }) {
      const serial = await volumes.find(volumeId)
      if (serial !== undefined) await guest.request(`unmount ${serial} ${encodeWord(mountPoint)}`, mountMs)
      await volumes.remove(volumeId)
    },
  }
}
