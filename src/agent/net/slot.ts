import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readIfExists, writeFileAtomic } from '../../lib/files.ts'
import { hostLock } from '../../lib/host-lock.ts'
import { livingNamespaces, tapNames } from './devices.ts'
import { tapPrefix } from './rules.ts'

export const slotCount = 16
const slotDir = '/run/mote/slots'

/**
 * Claims a slot: a small number that is unique among the agents of this host. The agent's addresses, taps and firewall
 * table contain it. The slot belongs to the data directory, not to the process, because VMs outlive their agent. A slot
 * is free once its data directory is deleted.
 * @returns `isNew`: the slot was free; an earlier agent may have left taps and rules in it
 * @throws Error when all slots are taken
 */
export async function claimSlot(dataDir: string): Promise<{ slot: number; isNew: boolean }> {
  const lock = await hostLock('network slots')
  try {
    await mkdir(slotDir, { recursive: true, mode: 0o755 })
    const owners = await Promise.all(
      Array.from({ length: slotCount }, (_, slot) => readIfExists(join(slotDir, String(slot)))),
    )
    const mine = owners.indexOf(dataDir)
    if (mine >= 0) return { slot: mine, isNew: false }
    const free = owners.findIndex((owner, slot) => (owner === undefined || !existsSync(owner)) && !isInUse(slot))
    if (free < 0)
      throw new Error(
        `all ${slotCount} network slots of this host are taken, by agents (${slotDir}) or by VMs that still run (ip link show type tun)`,
      )
    await writeFileAtomic(join(slotDir, String(free)), dataDir, { mode: 0o644 })
    return { slot: free, isNew: true }
  } finally {
    await lock.release()
  }
}

/**
 * True if a VMM has a tap of the slot open, or a sandbox runs in one of the slot's namespaces. Checked in addition to
 * the slot's data directory, which this agent does not see if the slot's agent runs in a container.
 */
function isInUse(slot: number): boolean {
  const prefix = tapPrefix(slot)
  if (livingNamespaces().some(name => name.startsWith(prefix))) return true
  return tapNames(prefix).some(tap => {
    const device = `/sys/class/net/${tap}`
    try {
      return existsSync(join(device, 'tun_flags')) && readFileSync(join(device, 'carrier'), 'utf8').trim() === '1'
    } catch {
      return false // the tap is down (EINVAL), or was just removed
    }
  })
}

export async function releaseSlot(slot: number): Promise<void> {
  await rm(join(slotDir, String(slot)), { force: true })
}
