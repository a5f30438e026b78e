import { chmod, rm } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { run } from '../../lib/exec.ts'
import type { RunCommand } from '../launcher/launcher.ts'
import { StepError } from '../base/step-error.ts'
import type { Prepared, SnapshotMade } from './driver.ts'

/** Names of a VM's disk files, in the VM's directory and in its snapshots. */
export const scratchFile = 'scratch.img'
export const configFile = 'config.img'

/** Copies a file and preserves its holes: untouched ranges cost neither time nor space. */
export async function copySparse(from: string, to: string, runs: RunCommand = run): Promise<void> {
  await runs('cp', ['--sparse=always', '--reflink=auto', '--', from, to])
}

/** Makes a writable copy of a snapshot's file, which is read-only. */
export async function copyWritable(from: string, to: string, runs?: RunCommand): Promise<void> {
  await rm(to, { force: true })
  await copySparse(from, to, runs)
  await chmod(to, 0o600)
}

/** Selects from a VM's driver data the values that every driver stores in its snapshots. */
export function snapshotNotes(notes: Prepared['notes'], logSeq: number): Prepared['notes'] {
  const { base = null, mac = null, guest = null, devices = null } = notes
  return { base, mac, guest, devices, logSeq }
}

/** Checks that this host can restore a snapshot. @throws StepError `snapshot_mismatch` if VMM or CPU differs */
export function refuseOther(made: SnapshotMade, here: string): void {
  if (made.madeBy === here) return
  throw new StepError('snapshot_mismatch', `the snapshot was made by ${made.madeBy}, this host has ${here}`)
}

/** Returns the CPU model in /proc/cpuinfo, which guests of this host see. */
export function hostCpu(): string {
  return /^model name\s*:\s*(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown'
}
