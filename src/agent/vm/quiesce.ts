import type { DiskSpec } from '../../contract/agent.ts'
import type { RunningVm } from '../hypervisor/driver.ts'

/**
 * Has the guest write what it holds back of the volume and hold its file system, pauses the machine, acts, and lets
 * both go on. Answers for how long the machine was paused, ms.
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
  // A guest that cannot be asked is no obstacle: what it holds back is lost as in a power cut, and the rest is whole.
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
    // It thaws by itself after some seconds.
    await runningVm.thawDisk?.(disk).catch(() => undefined)
  }
}
