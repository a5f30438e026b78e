import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Static, type TSchema, Type } from 'typebox'
import { Value } from 'typebox/value'
import { VmPut } from '../contract/agent.ts'
import { hasCode, readIfExists, writeFileAtomic } from '../lib/files.ts'
import { newId } from '../lib/ids.ts'
import { createKeyedMutex } from '../lib/keyed-mutex.ts'
import { unbindBelow } from './hypervisor/bind.ts'
import { parseLines } from './logs/file.ts'
import { formatLine, type StoredLine } from './logs/line.ts'
import { newRecord, VmRecord } from './vm/record.ts'

export interface StoredVm {
  readonly desired: VmPut
  readonly record: VmRecord
}

/** The agent's directory: one folder a VM, tombstones of those that went, the last log lines of the recent ones. */
export interface StateDir {
  readonly hostId: string
  vmDir(vmId: string): string
  /** Every VM with a readable wish, and the names of folders without one. */
  load(): Promise<{ vms: StoredVm[]; rubbish: string[] }>
  /** After it resolves the wish survives a power cut. */
  saveDesired(desired: VmPut): Promise<void>
  /** Survives a crash of the agent, not a power cut. */
  saveRecord(vmId: string, record: VmRecord): Promise<void>
  /** The generation under which the VM went, 0 when the host never had it. */
  buriedGeneration(vmId: string): Promise<number>
  /** Leaves the tombstone and the last lines; everything else is out of the way, and removed soon, with the next one or at the next start. */
  bury(vmId: string, generation: number, lastLines: readonly StoredLine[]): Promise<void>
  lastLines(vmId: string): Promise<StoredLine[]>
  /** Removes last lines and tombstones that are too old to matter, and half-made folders. */
  prune(rubbish: readonly string[]): Promise<void>
  /** Resolves when no directory is being removed any more. */
  settled(): Promise<void>
}

/** Long after any message about the VM can still be under way. */
const tombstoneMs = 30 * 24 * 3_600_000
export const tailLines = 200
const tailMs = 3_600_000

/**
 * @param wantedId the id this host was given; kept from the first start on
 * @param onLeft why the directory of a VM that has gone is still there
 * @throws Error when the directory belongs to another host
 */
export async function openStateDir(
  dataDir: string,
  wantedId: string | null,
  onLeft: (error: unknown) => void,
): Promise<StateDir> {
  const dirs = {
    vms: join(dataDir, 'vms'),
    gone: join(dataDir, 'gone'),
    tails: join(dataDir, 'tails'),
    leaving: join(dataDir, 'leaving'),
  }
  for (const dir of Object.values(dirs)) await mkdir(dir, { recursive: true, mode: 0o700 })
  const hostId = await ownId(join(dataDir, 'host.json'), wantedId)
  const tailFile = (vmId: string) => join(dirs.tails, `${vmId}.tail`)
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
    // Not durable: a power cut ends the VMs too, and the wish alone brings them back. Saves 2 ms at each step of a boot.
    async saveRecord(vmId, record) {
      // One that cannot be read again would make the next agent forget a VM that runs.
      if (!Value.Check(VmRecord, record)) throw new Error('BUG: the record of a VM is not one')
      // After a power cut no VM runs, and what the record says of them is found out anew; but for these, which keep volumes
      // from being given to a guest that does not know them.
      const durable = record.origin !== undefined || record.keptFor !== undefined
      return writeFileAtomic(join(vmDir(vmId), 'record.json'), JSON.stringify(record), { durable })
    },
    async buriedGeneration(vmId) {
      return Number((await readIfExists(join(dirs.gone, vmId))) ?? 0)
    },
    async bury(vmId, generation, lines) {
      await writeFileAtomic(join(dirs.gone, vmId), String(generation))
      if (lines.length > 0) await writeFile(tailFile(vmId), lines.map(formatLine).join(''), { mode: 0o600 })
      await rename(vmDir(vmId), join(dirs.leaving, newId())).catch((error: unknown) => {
        if (!hasCode(error, 'ENOENT')) throw error
      })
      void clearLeaving()
    },
    lastLines: async vmId => parseLines(await readIfExists(tailFile(vmId))),
    async prune(rubbish) {
      for (const name of rubbish) await removeTree(join(dirs.vms, name))
      await clearLeaving()
      await removeOlder(dirs.tails, tailMs)
      await removeOlder(dirs.gone, tombstoneMs)
    },
    settled: () => mutex.settled(),
  }
}

/** One that stays holds back neither the others nor the agent's start. */
async function clear(dir: string, onLeft: (error: unknown) => void): Promise<void> {
  const names = await readdir(dir).catch((error: unknown) => onLeft(error))
  await Promise.all((names ?? []).map(name => removeTree(join(dir, name)).catch(onLeft)))
}

/** A volume that was shown in there while its VM went is a mount, which moved along with the directory. */
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
    // Without a wish the folder is what a crash left of the first put, which was never acknowledged.
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
    return undefined // empty or cut short by a power cut
  }
}

const HostFile = Type.Object({ hostId: Type.String() })

async function ownId(file: string, wanted: string | null): Promise<string> {
  const known = parse(HostFile, await readIfExists(file))
  if (known && wanted !== null && known.hostId !== wanted)
    throw new Error(`${file} is of host ${known.hostId}, not ${wanted}: use another data directory for the new host`)
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
