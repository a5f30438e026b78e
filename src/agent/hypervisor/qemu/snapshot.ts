import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { Running, SnapshotMade } from '../driver.ts'
import { configFile, copySparse, scratchFile, snapshotNotes } from '../snapshot-files.ts'
import { runDir, type VmUser } from '../isolation.ts'
import { copyMemory, memoryName, memoryOf } from './guest-memory.ts'
import { ScsiAddress } from './hotplug.ts'
import type { Qmp } from './qmp.ts'
import { asObject } from './qmp.ts'
import { saveState } from './state-file.ts'

/** Names of the files of a snapshot. The file `memory` is missing if `state` includes the guest's memory. */
export const snapshotFiles = { memory: memoryName, state: 'state' } as const

export interface SnapshotInput {
  readonly qmp: Qmp
  readonly running: Running
  readonly dir: string
  readonly target: string
  readonly madeBy: string
  readonly user: VmUser | undefined
  /** Number of the last log line of the guest that the agent has stored. */
  readonly logSeq: number
  /** SCSI address of each volume. */
  readonly addresses: Readonly<Record<string, ScsiAddress>>
}

const Addresses = Type.Record(Type.String(), ScsiAddress)

/** Returns the SCSI address of each volume in the snapshot. */
export function addressesOf({ notes }: SnapshotMade): Readonly<Record<string, ScsiAddress>> {
  return notes.volumes ? Value.Parse(Addresses, JSON.parse(String(notes.volumes))) : {}
}

/**
 * Takes a consistent snapshot: pauses the guest; copies the memory (read from QEMU's process), the device state and the
 * scratch disk; and resumes the guest.
 */
export async function takeSnapshot({
  qmp,
  running,
  dir,
  target,
  madeBy,
  user,
  logSeq,
  addresses,
}: SnapshotInput): Promise<SnapshotMade> {
  await mkdir(target, { recursive: true, mode: 0o700 })
  const wasRunning = asObject(await qmp.execute('query-status')).running === true
  const memory = await memoryOf(running.process.pid)
  const startedMs = performance.now()
  if (wasRunning) await qmp.execute('stop')
  try {
    await Promise.all([
      saveState(qmp, join(dir, runDir), join(target, snapshotFiles.state), memory !== undefined, user),
      memory && copyMemory(memory, join(target, snapshotFiles.memory)),
      copySparse(join(dir, scratchFile), join(target, scratchFile)),
      copySparse(join(dir, configFile), join(target, configFile)),
    ])
  } finally {
    if (wasRunning) await qmp.execute('cont')
  }
  const pauseMs = wasRunning ? Math.round(performance.now() - startedMs) : 0
  const { imageDigest, notes } = running.prepared
  const memoryApart = memory === undefined ? 0 : 1
  const volumes = JSON.stringify(addresses)
  return { madeBy, imageDigest, pauseMs, notes: { ...snapshotNotes(notes, logSeq), memoryApart, volumes } }
}
