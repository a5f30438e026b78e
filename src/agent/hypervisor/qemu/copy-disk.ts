/**
 * A copy of a volume as it is at one instant, made by QEMU while the guest goes on: what the guest is about to overwrite is
 * copied first (`blockdev-backup`, QEMU 7.2 QMP reference). The volume's own file is the newest at every moment, so nothing
 * that dies meanwhile costs more than the copy.
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

const lookEveryMs = 10
/** Of what is copied, on the volume's node. */
const bitmap = 'copied'
/** Less than an int of bytes (qemu-io of QEMU 7.2). */
const mostMarkedBytes = 2 ** 30

export interface CopyPlan {
  readonly qmp: Qmp
  readonly dir: string
  readonly user: VmUser | undefined
  readonly volumeId: string
  /** A file of the volume's size that reads as zeros. */
  readonly target: string
}

/**
 * Makes all ready but the instant, which `begin` takes: a VM stands still for one command. What an earlier agent began for
 * this volume is given up. @throws StepError `vm_not_running`, Error of QEMU
 */
export async function prepareCopy({ qmp, dir, user, volumeId, target }: CopyPlan): Promise<DiskCopy> {
  const source = nodeOf(volumeId)
  const name = `c${source.slice(1)}`
  const marks = `e${source.slice(1)}`
  const shown = join(dir, runDir, name)
  const letGo = async () => {
    try {
      await dropJob(qmp, name)
      for (const node of [name, marks]) await qmp.execute('blockdev-del', { 'node-name': node }).catch(notThere)
      await qmp.execute('block-dirty-bitmap-remove', { node: source, name: bitmap }).catch(notThere)
    } finally {
      await unbind(shown)
      // The VM's user has it no more.
      if (user) await chown(target, process.getuid?.() ?? 0, process.getgid?.() ?? 0)
    }
  }
  await letGo()
  try {
    if (user) await showFile(target, shown, user, 'write')
    const file = { driver: 'file', filename: user ? join(runDir, name) : target, discard: 'unmap' }
    await qmp.execute('blockdev-add', { driver: 'raw', 'node-name': name, discard: 'unmap', file })
    await markData(qmp, dir, source, marks)
  } catch (error) {
    await letGo()
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
    [Symbol.asyncDispose]: letGo,
  }
}

/**
 * Marks what the volume has data in, and from here on what the guest writes to. QEMU itself would also copy what reads as zeros, and
 * the file system would give the copy room for all of the volume (`fallocate`, without holes). A bitmap can only be marked by writes: so they
 * are made to a node that keeps nothing, and merged.
 */
async function markData(qmp: Qmp, dir: string, source: string, marks: string): Promise<void> {
  await qmp.execute('block-dirty-bitmap-add', { node: source, name: bitmap })
  const { file, sizeBytes } = await openedAs(qmp, source)
  await qmp.execute('blockdev-add', { driver: 'null-co', 'node-name': marks, size: sizeBytes })
  await qmp.execute('block-dirty-bitmap-add', { node: marks, name: bitmap })
  for (const range of await dataRanges(resolve(dir, file))) {
    // A file that has just grown may have more than QEMU knows of.
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
    if (!job) throw new Error('QEMU has forgotten the copy of the volume')
    if (job.status === 'concluded' && job.error === undefined) return
    if (job.status === 'concluded') throw new Error(`QEMU could not copy the volume: ${job.error}`)
    await sleep(lookEveryMs)
  }
}

/** Idempotent: one that runs is cancelled, one that has ended is forgotten. */
export async function dropJob(qmp: Qmp, id: string): Promise<void> {
  for (let job = await jobOf(qmp, id); job; job = await jobOf(qmp, id)) {
    const verb = job.status === 'concluded' ? 'job-dismiss' : 'job-cancel'
    await qmp.execute(verb, { id }).catch(() => undefined)
    await sleep(lookEveryMs)
  }
}
