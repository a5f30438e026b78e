import type { DiskSpec } from '../../contract/agent.ts'
import type { RunningVm } from '../hypervisor/driver.ts'

/**
 * Quiesces a volume: the guest flushes and freezes its file system, the VM is paused for `act`, then the VM and its
 * file system resume. Returns how long the VM was paused, in ms.
 */
export async function quiesce(
  runningVm: RunningVm,
  disk: DiskSpec,
  paused: boolean,
  act: () => Promise<void>,
): Promise<number> {
  if (paused) {
    await act()
    return 0
  }
  // If the guest does not answer, continue without the freeze. The copy then has the state of a disk after a power
  // failure.
  await runningVm.freezeDisk?.(disk).catch(() => undefined)
  try {
    const startedMs = performance.now()
    await runningVm.pause()
    try {
      await act()
    } finally {
      await runningVm.resume()
    }
    return performance.now() - startedMs
  } finally {
    // If the thaw request fails, the guest thaws the file system by itself after a few seconds.
    await runningVm.thawDisk?.(disk).catch(() => undefined)
  }
}
