import { mkdir, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import type { Prepared, Running, SnapshotMade } from '../driver.ts'
import { StepError } from '../../vm/errors.ts'
import type { Qmp } from './qmp.ts'
import { asObject } from './qmp.ts'
import { saveState } from './state-file.ts'

/** The files of a snapshot. `memory` is missing when the guest's memory is in `state`. */
export const snapshotFiles = { memory: 'memory', state: 'state', scratch: 'scratch.img', config: 'config.img' } as const

export interface SnapshotInput {
  readonly qmp: Qmp
  readonly running: Running
  readonly dir: string
  readonly target: string
  readonly madeBy: string
  /** The last log line that the agent has safely. */
  readonly logSeq: number
}

/**
 * Everything at one instant: the guest stands still while memory (read from QEMU's memfd), devices and the scratch disk
 * are copied, then goes on.
 */
export async function takeSnapshot({
  qmp,
  running,
  dir,
  target,
  madeBy,
  logSeq,
}: SnapshotInput): Promise<SnapshotMade> {
  await mkdir(target, { recursive: true, mode: 0o700 })
  const wasRunning = asObject(await qmp.execute('query-status')).running === true
  const memory = await memoryOf(running.process.pid)
  const startedMs = performance.now()
  if (wasRunning) await qmp.execute('stop')
  try {
    await Promise.all([
      saveState(qmp, dir, join(target, snapshotFiles.state), memory !== undefined),
      memory === undefined ? undefined : copy(memory, join(target, snapshotFiles.memory)),
      copy(join(dir, 'scratch.img'), join(target, snapshotFiles.scratch)),
      copy(join(dir, 'config.img'), join(target, snapshotFiles.config)),
    ])
  } finally {
    if (wasRunning) await qmp.execute('cont')
  }
  const pauseMs = wasRunning ? Math.round(performance.now() - startedMs) : 0
  const { imageDigest, notes } = running.prepared
  return { madeBy, imageDigest, pauseMs, notes: notesOf(notes, logSeq, memory !== undefined) }
}

function notesOf(notes: Prepared['notes'], logSeq: number, memoryApart: boolean): Prepared['notes'] {
  const { base = null, mac = null, guest = null } = notes
  return { base, mac, guest, logSeq, memoryApart: memoryApart ? 1 : 0 }
}

/** Holes stay holes: what the guest never touched costs neither time nor space. */
async function copy(from: string, to: string): Promise<void> {
  await run('cp', ['--sparse=always', '--reflink=auto', '--', from, to])
}

/** QEMU's memfd as a path; undefined in a clone, whose memory is a private mapping. */
async function memoryOf(pid: number): Promise<string | undefined> {
  const fds = `/proc/${pid}/fd`
  for (const name of await readdir(fds)) {
    const target = await readlink(join(fds, name)).catch(() => '')
    if (target.startsWith('/memfd:memory-backend-memfd')) return join(fds, name)
  }
  return undefined
}

/** @throws StepError `snapshot_mismatch` when the snapshot needs another VMM or CPU than this host has now. */
export function refuseOther(made: SnapshotMade, here: string): void {
  if (made.madeBy === here) return
  throw new StepError('snapshot_mismatch', `the snapshot was made by ${made.madeBy}, this host has ${here}`)
}
