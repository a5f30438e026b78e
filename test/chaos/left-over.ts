/** Finds processes and network interfaces of real VMs on this machine, independently of the database. */
import { readdir, readlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { removeTap, tapNames } from '../../src/agent/net/devices.ts'
import { tableName, tapPrefix } from '../../src/agent/net/rules.ts'
import { releaseSlot } from '../../src/agent/net/slot.ts'
import { vmmsIn } from '../support/agent/agent.ts'
import { CommandError, run } from '../../src/lib/exec.ts'
import { readIfExists } from '../../src/lib/files.ts'

const slotDir = '/run/mote/slots'

/**
 * @param dir parent of the host directories
 * @param wanted VMs that should run on real hosts
 * @returns leftover and missing processes and taps
 */
export async function leftOver(dir: string, wanted: readonly string[]): Promise<string[]> {
  const missing = new Set(wanted)
  const faults: string[] = []
  for (const pid of await vmmsIn(dir)) {
    // Each VMM runs in the directory of its VM.
    const vmId = basename(await readlink(`/proc/${pid}/cwd`).catch(() => ''))
    if (!missing.delete(vmId)) faults.push(`left over: process ${pid} of ${vmId}`)
  }
  for (const vmId of missing) faults.push(`no process of ${vmId}`)
  const taps = (await slotsOf(dir)).flatMap(slot => tapNames(tapPrefix(slot)))
  if (taps.length > wanted.length) faults.push(`left over: taps ${taps.join(', ')} for ${wanted.length} VMs`)
  return faults
}

/** Removes what hosts leave behind if all their programs are killed for good. */
export async function clearHosts(dir: string): Promise<void> {
  for (const pid of await vmmsIn(dir)) process.kill(pid, 'SIGKILL')
  for (const slot of await slotsOf(dir)) {
    for (const tap of tapNames(tapPrefix(slot))) await removeTap(tap)
    await run('nft', ['delete', 'table', 'inet', tableName(slot)]).catch((error: unknown) => {
      if (!(error instanceof CommandError)) throw error
    })
    await releaseSlot(slot)
  }
}

/**
 * Each host has a slot on this machine, and its network devices and tables contain the slot's number in their names.
 */
async function slotsOf(dir: string): Promise<number[]> {
  const slots: number[] = []
  for (const slot of await readdir(slotDir).catch(() => []))
    if ((await readIfExists(join(slotDir, slot)))?.startsWith(`${dir}/`)) slots.push(Number(slot))
  return slots
}
