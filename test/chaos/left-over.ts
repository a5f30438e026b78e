/** What real VMs have on this machine, whatever anybody believes: processes and interfaces. */
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
 * @param dir below it are the directories of the hosts
 * @param wanted the VMs that there should be on those with real ones
 * @returns what is too much and what is missing
 */
export async function leftOver(dir: string, wanted: readonly string[]): Promise<string[]> {
  const missing = new Set(wanted)
  const faults: string[] = []
  for (const pid of await vmmsIn(dir)) {
    // Each runs in the directory of its VM.
    const vmId = basename(await readlink(`/proc/${pid}/cwd`).catch(() => ''))
    if (!missing.delete(vmId)) faults.push(`left over: process ${pid} of ${vmId}`)
  }
  for (const vmId of missing) faults.push(`no process of ${vmId}`)
  const taps = (await slotsOf(dir)).flatMap(slot => tapNames(tapPrefix(slot)))
  if (taps.length > wanted.length) faults.push(`left over: taps ${taps.join(', ')} for ${wanted.length} VMs`)
  return faults
}

/** Ends what the hosts would have left when all their programs were killed for good. */
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

/** Each host has a slot of this machine, and the slot's number is in the names of what it has in the network. */
async function slotsOf(dir: string): Promise<number[]> {
  const slots: number[] = []
  for (const slot of await readdir(slotDir).catch(() => []))
    if ((await readIfExists(join(slotDir, slot)))?.startsWith(`${dir}/`)) slots.push(Number(slot))
  return slots
}
