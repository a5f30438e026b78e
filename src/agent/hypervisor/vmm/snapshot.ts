import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import type { SnapshotMade } from '../driver.ts'
import { configFile, copySparse, scratchFile, snapshotNotes } from '../snapshot-files.ts'
import type { Platform, VmContext, VmmControl } from './platform.ts'

/** Timeout for writing a snapshot: enough for a large guest's memory on a slow disk. */
export const snapshotMs = 600_000

/**
 * Takes a consistent snapshot: pauses the guest while the VMM writes memory and devices, and the agent copies the
 * scratch disk. Firecracker closes the guest's vsock connections meanwhile; the agent's channel to the guest reconnects
 * by itself.
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
  // VMMs write memory that the guest never touched as zeros. Turn these zeros into holes.
  await run('fallocate', ['--dig-holes', join(target, memoryFile)]).catch(() => undefined)
  const { imageDigest, notes } = running.prepared
  return { madeBy, imageDigest, pauseMs, notes: snapshotNotes(notes, logSeq) }
}
