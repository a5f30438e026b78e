/**
 * Point-in-time copies of volumes while the guest runs. QEMU copies a block before the guest overwrites it
 * (`blockdev-backup`, QEMU 7.2 QMP reference). The volume's own file always has the latest data, so a crash loses only
 * the copy.
 */
import { chown } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { dataRanges } from '../../disk/extents.ts'
import { StepError } from '../../base/step-error.ts'
import { unbind } from '../bind.ts'
import type { DiskCopy } from '../driver.ts'
import { runDir, showFile, type VmUser } from '../isolation.ts'
import { nodeOf, openedAs } from './hotplug.ts'
import { asObject, type Qmp } from './qmp.ts'

const pollIntervalMs = 10
/** Name of the dirty bitmap that selects the blocks to copy. */
const bitmap = 'copied'
/** Maximum size of one write that marks blocks: qemu-io of QEMU 7.2 accepts less than 2^31 bytes per write. */
const mostMarkedBytes = 2 ** 30

export interface CopyPlan {
  readonly qmp: Qmp
  readonly dir: string
  readonly user: VmUser | undefined
  readonly volumeId: string
  /** File for the copy: as large as the volume, and all zeros. */
  readonly target: string
}

/**
 * Prepares a copy of a volume. `begin` starts it with a single command, so that the VM is paused only briefly. An
 * unfinished copy of this volume that an earlier agent started is cancelled.
 * @throws StepError `vm_not_running`, or an error of QEMU
 */
export async function prepareCopy({ qmp, dir, user, volumeId, target }: CopyPlan): Promise<DiskCopy> {
  const source = nodeOf(volumeId)
  const name = `c${source.slice(1)}`
  const marks = `e${source.slice(1)}`
  const shown = join(dir, runDir, name)
  const release = async () => {
    try {
      await dropJob(qmp, name)
      for (const node of [name, marks]) await qmp.execute('blockdev-del', { 'node-name': node }).catch(notThere)
      await qmp.execute('block-dirty-bitmap-remove', { node: source, name: bitmap }).catch(notThere)
    } finally {
      await unbind(shown)
      // Take the file back. QEMU runs as the VM's user, who had to own the file until now.
      if (user) await chown(target, process.getuid?.() ?? 0, process.getgid?.() ?? 0)
    }
  }
  await release()
  try {
    if (user) await showFile(target, shown, user, 'write')
    const file = { driver: 'file', filename: user ? join(runDir, name) : target, discard: 'unmap' }
    await qmp.execute('blockdev-add', { driver: 'raw', 'node-name': name, discard: 'unmap', file })
    await markData(qmp, dir, source, marks)
  } catch (error) {
    await release()
    throw error
  }
  const job = {
    'job-id': name,
    device: source,
    target: name,
    'auto-dismiss': false,
    sync: 'bitmap',
    bitmap,
    'bitmap-mode': 'never',
  }
  return {
    begin: async () => void (await qmp.execute('blockdev-backup', job)),
    whole: () => untilDone(qmp, name),
    [Symbol.asyncDispose]: release,
  }
}

/**
 * Marks the blocks of the volume that have data; from then on, QEMU also marks the blocks that the guest writes.
 * Without this bitmap, QEMU would also copy zeros, and the copy would be fully allocated (`fallocate`, without holes).
 * QEMU marks a bitmap only on writes, so this function writes to a null device and merges that device's bitmap.
 */
async function markData(qmp: Qmp, dir: string, source: string, marks: string): Promise<void> {
  await qmp.execute('block-dirty-bitmap-add', { node: source, name: bitmap })
  const { file, sizeBytes } = await openedAs(qmp, source)
  await qmp.execute('blockdev-add', { driver: 'null-co', 'node-name': marks, size: sizeBytes })
  await qmp.execute('block-dirty-bitmap-add', { node: marks, name: bitmap })
  for (const range of await dataRanges(resolve(dir, file))) {
    // A file that was just grown may be longer than the size that QEMU knows.
    const end = Math.min(range.end, sizeBytes)
    for (let at = range.start; at < end; at += mostMarkedBytes) {
      const command = `qemu-io ${marks} "write -q -z ${at} ${Math.min(end - at, mostMarkedBytes)}"`
      const said = await qmp.execute('human-monitor-command', { 'command-line': command })
      if (said !== '') throw new Error(`QEMU could not mark what to copy: ${said}`)
    }
  }
  await qmp.execute('block-dirty-bitmap-merge', {
    node: source,
    target: bitmap,
    bitmaps: [{ node: marks, name: bitmap }],
  })
  await qmp.execute('blockdev-del', { 'node-name': marks })
}

const notThere = () => undefined

interface Job {
  readonly status: string
  readonly error: string | undefined
}

async function jobOf(qmp: Qmp, id: string): Promise<Job | undefined> {
  const all = await qmp.execute('query-jobs').catch((cause: unknown) => {
    throw new StepError('vm_not_running', 'the VM ended while its volume was copied', { cause })
  })
  const found = Array.isArray(all) ? all.map(asObject).find(job => job.id === id) : undefined
  return found && { status: String(found.status), error: found.error === undefined ? undefined : String(found.error) }
}

async function untilDone(qmp: Qmp, id: string): Promise<void> {
  for (;;) {
    const job = await jobOf(qmp, id)
    if (!job) throw new Error('QEMU no longer has the copy job of the volume')
    if (job.status === 'concluded' && job.error === undefined) return
    if (job.status === 'concluded') throw new Error(`QEMU could not copy the volume: ${job.error}`)
    await sleep(pollIntervalMs)
  }
}

/** Cancels a running block job and dismisses a finished one. Idempotent. */
export async function dropJob(qmp: Qmp, id: string): Promise<void> {
  for (let job = await jobOf(qmp, id); job; job = await jobOf(qmp, id)) {
    const verb = job.status === 'concluded' ? 'job-dismiss' : 'job-cancel'
    await qmp.execute(verb, { id }).catch(() => undefined)
    await sleep(pollIntervalMs)
  }
}
