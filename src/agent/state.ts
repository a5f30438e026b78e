import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { VmPut } from '../contract/agent.ts'
import { hasCode, readIfExists, writeFileAtomic } from '../lib/files.ts'
import { newId } from '../lib/ids.ts'
import { createKeyedMutex } from '../lib/keyed-mutex.ts'
import { unbindBelow } from './hypervisor/bind.ts'
import { newRecord, VmRecord } from './vm/record.ts'

export interface StoredVm {
  readonly desired: VmPut
  readonly record: VmRecord
}

/** The agent's data directory: it has one directory per VM, and tombstones of removed VMs. */
export interface StateDir {
  readonly hostId: string
  vmDir(vmId: string): string
  /** Loads every VM with a readable desired state, and the names of directories without one (`rubbish`). */
  load(): Promise<{ vms: StoredVm[]; rubbish: string[] }>
  /** Resolves once the desired state survives a power failure. */
  saveDesired(desired: VmPut): Promise<void>
  /** Stores the VM record. It survives a crash of the agent, but not a power failure. */
  saveRecord(vmId: string, record: VmRecord): Promise<void>
  /** Returns the generation at which the VM was removed; 0 if it was never removed from this host. */
  buriedGeneration(vmId: string): Promise<number>
  /**
   * Writes the VM's tombstone, and moves the VM's directory away. Its files are deleted soon, or else with the next
   * removal or at the agent's next start.
   */
  bury(vmId: string, generation: number): Promise<void>
  /** Removes expired tombstones, and the incomplete directories in `rubbish`. */
  prune(rubbish: readonly string[]): Promise<void>
  /** Resolves when no directory of a removed VM is being deleted. */
  settled(): Promise<void>
}

/** How long a tombstone is kept: far longer than a message about the VM can be delayed. */
const tombstoneMs = 30 * 24 * 3_600_000

/**
 * Opens the data directory.
 * @param wantedId the id assigned to this host; fixed at the first start
 * @param onLeft called with the error when the directory of a removed VM cannot be deleted
 * @throws Error when the data directory belongs to another host
 */
export async function openStateDir(
  dataDir: string,
  wantedId: string | null,
  onLeft: (error: unknown) => void,
): Promise<StateDir> {
  const dirs = {
    vms: join(dataDir, 'vms'),
    gone: join(dataDir, 'gone'),
    leaving: join(dataDir, 'leaving'),
  }
  for (const dir of Object.values(dirs)) await mkdir(dir, { recursive: true, mode: 0o700 })
  const hostId = await ownId(join(dataDir, 'host.json'), wantedId)
  const vmDir = (vmId: string) => join(dirs.vms, vmId)
  const mutex = createKeyedMutex()
  const clearLeaving = () => mutex.take('leaving', () => clear(dirs.leaving, onLeft))
  return {
    hostId,
    vmDir,
    load: () => loadAll(dirs.vms),
    async saveDesired(desired) {
      await mkdir(vmDir(desired.vmId), { recursive: true, mode: 0o700 })
      await writeFileAtomic(join(vmDir(desired.vmId), 'wish.json'), JSON.stringify(desired))
    },
    // Not durable, which saves 2 ms at each step of a boot. A power failure stops the VMs, too, and the desired state
    // is enough to start them again.
    async saveRecord(vmId, record) {
      // The next agent would forget a running VM whose record it cannot read.
      if (!Value.Check(VmRecord, record)) throw new Error('BUG: the record of a VM is invalid')
      // After a power failure no VM runs, and most of the record is determined again. But the fields `origin` and
      // `keptFor` must be durable, because they keep volumes from being attached to the wrong guest.
      const durable = record.origin !== undefined || record.keptFor !== undefined
      return writeFileAtomic(join(vmDir(vmId), 'record.json'), JSON.stringify(record), { durable })
    },
    async buriedGeneration(vmId) {
      return Number((await readIfExists(join(dirs.gone, vmId))) ?? 0)
    },
    async bury(vmId, generation) {
      await writeFileAtomic(join(dirs.gone, vmId), String(generation))
      await rename(vmDir(vmId), join(dirs.leaving, newId())).catch((error: unknown) => {
        if (!hasCode(error, 'ENOENT')) throw error
      })
      void clearLeaving()
    },
    async prune(rubbish) {
      for (const name of rubbish) await removeTree(join(dirs.vms, name))
      await clearLeaving()
      // Earlier versions stored the last log lines of each removed VM in this directory.
      await rm(join(dataDir, 'tails'), { recursive: true, force: true })
      await removeOlder(dirs.gone, tombstoneMs)
    },
    settled: () => mutex.settled(),
  }
}

/** Removes all directories in `dir`. A failure is only reported: it must delay neither other removals nor the start. */
async function clear(dir: string, onLeft: (error: unknown) => void): Promise<void> {
  const names = await readdir(dir).catch((error: unknown) => onLeft(error))
  await Promise.all((names ?? []).map(name => removeTree(join(dir, name)).catch(onLeft)))
}

/** Unmounts first: a volume may be bind-mounted below the VM's directory, and was moved along with it. */
async function removeTree(path: string): Promise<void> {
  await unbindBelow(path)
  await rm(path, { recursive: true, force: true })
}

async function loadAll(dir: string): Promise<{ vms: StoredVm[]; rubbish: string[] }> {
  const vms: StoredVm[] = []
  const rubbish: string[] = []
  for (const name of await readdir(dir)) {
    const desired = parse(VmPut, await readIfExists(join(dir, name, 'wish.json')))
    const record = parse(VmRecord, await readIfExists(join(dir, name, 'record.json')))
    // A directory without a desired state is left over from a crash while the VM's first desired state was stored,
    // which was never acknowledged.
    if (desired?.vmId === name) vms.push({ desired, record: record ?? newRecord })
    else rubbish.push(name)
  }
  return { vms, rubbish }
}

function parse<T extends TSchema>(schema: T, text: string | undefined): Static<T> | undefined {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return Value.Check(schema, value) ? value : undefined
  } catch {
    return undefined // the file is empty or truncated, as after a power failure
  }
}

const HostFile = Type.Object({ hostId: Type.String() })

async function ownId(file: string, wanted: string | null): Promise<string> {
  const known = parse(HostFile, await readIfExists(file))
  if (known && wanted !== null && known.hostId !== wanted)
    throw new Error(
      `${file} belongs to host ${known.hostId}, not ${wanted}: use another data directory for the new host`,
    )
  if (known) return known.hostId
  const hostId = wanted ?? newId()
  await writeFileAtomic(file, JSON.stringify({ hostId }))
  return hostId
}

async function removeOlder(dir: string, ageMs: number): Promise<void> {
  for (const name of await readdir(dir)) {
    const path = join(dir, name)
    const { mtimeMs } = await stat(path)
    if (mtimeMs < Date.now() - ageMs) await rm(path, { force: true })
  }
}
