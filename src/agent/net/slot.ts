import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { machineLock } from '../../lib/machine-lock.ts'

export const slotCount = 16
const slotDir = '/run/mote/slots'

/**
 * A small number that is this agent's alone on this machine: its addresses, taps and firewall table carry it. It belongs
 * to the data directory, not to the process, because VMs outlive their agent; a slot whose directory is no more is free.
 * @throws Error when all slots are taken.
 */
export async function claimSlot(dataDir: string): Promise<number> {
  const lock = await machineLock('network slots')
  try {
    await mkdir(slotDir, { recursive: true, mode: 0o755 })
    const owners = await Promise.all(
      Array.from({ length: slotCount }, (_, slot) => readIfExists(join(slotDir, String(slot)))),
    )
    const mine = owners.indexOf(dataDir)
    if (mine >= 0) return mine
    const free = owners.findIndex(owner => owner === undefined || !existsSync(owner))
    if (free < 0) throw new Error(`all ${slotCount} network slots of this machine are taken: see ${slotDir}`)
    await writeFileAtomic(join(slotDir, String(free)), dataDir, { mode: 0o644 })
    return free
  } finally {
    await lock.release()
  }
}

export async function releaseSlot(slot: number): Promise<void> {
  await rm(join(slotDir, String(slot)), { force: true })
}
