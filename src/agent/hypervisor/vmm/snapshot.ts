import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import type { SnapshotMade } from '../driver.ts'
import { configFile, copySparse, scratchFile, snapshotNotes } from '../snapshot-files.ts'
import type { Platform, VmContext, VmmControl } from './platform.ts'

/** Long enough for a large guest's memory on a slow disk. */
export const snapshotMs = 600_000

/**
 * Everything at one instant: the guest stands still while the VMM writes memory and devices, and the scratch disk is
 * copied. Where its vsock connections are cut by that (Firecracker), the guest's channel comes back by itself.
 */
export async function takeSnapshot(
  platform: Pick<Platform, 'inspect' | 'setPaused'>,
  { api, running, vmDir, madeBy }: VmContext,
  { writeState, memoryFile }: VmmControl,
  target: string,
  logSeq: number,
): Promise<SnapshotMade> {
  const wasRunning = (await platform.inspect(api)) === 'running'
  const startedMs = performance.now()
  if (wasRunning) await platform.setPaused(api, true)
  try {
    await writeState(target)
    await copySparse(join(vmDir, scratchFile), join(target, scratchFile))
  } finally {
    if (wasRunning) await platform.setPaused(api, false)
  }
  const pauseMs = wasRunning ? Math.round(performance.now() - startedMs) : 0
  await copySparse(join(vmDir, configFile), join(target, configFile))
  // What the guest never touched takes no space; VMMs write it all.
  await run('fallocate', ['--dig-holes', join(target, memoryFile)]).catch(() => undefined)
  const { imageDigest, notes } = running.prepared
  return { madeBy, imageDigest, pauseMs, notes: snapshotNotes(notes, logSeq) }
}
