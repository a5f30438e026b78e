/** Finds processes and network interfaces of real VMs on this machine, independently of the database. */
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { namespaceNames, removeNamespace, removeTap, tapNames } from '../../src/agent/net/devices.ts'
import { tableName, tapPrefix } from '../../src/agent/net/rules.ts'
import { unbindBelow } from '../../src/agent/hypervisor/bind.ts'
import { releaseSlot } from '../../src/agent/net/slot.ts'
import { vmDirOf, vmmsIn } from '../support/agent/agent.ts'
import { CommandError, run } from '../../src/lib/exec.ts'
import { readIfExists } from '../../src/lib/files.ts'
import { identifyProcess } from '../../src/lib/process-identity.ts'
import { until } from '../support/wait.ts'

const slotDir = '/run/mote/slots'

/**
 * Compares the VMM processes and taps on this machine with the VMs that should run.
 * @param dir parent of the host directories
 * @param wanted VMs that should run on real hosts
 * @returns leftover and missing processes and taps
 */
export async function leftOver(dir: string, wanted: readonly string[]): Promise<string[]> {
  const missing = new Set(wanted)
  const faults: string[] = []
  for (const pid of await vmmsIn(dir)) {
    const vmId = basename(await vmDirOf(pid))
    if (!missing.delete(vmId)) faults.push(`left over: process ${pid} of ${vmId}`)
  }
  for (const vmId of missing) faults.push(`no process of ${vmId}`)
  const taps = (await slotsOf(dir)).flatMap(slot => tapNames(tapPrefix(slot)))
  if (taps.length > wanted.length) faults.push(`left over: taps ${taps.join(', ')} for ${wanted.length} VMs`)
  return faults
}

/**
 * Removes the VMM processes, mounts, taps, network namespaces and firewall tables of all hosts, after their agents were
 * killed and will not be restarted.
 */
export async function clearHosts(dir: string): Promise<void> {
  const vmms = await vmmsIn(dir)
  for (const pid of vmms) process.kill(pid, 'SIGKILL')
  await until(() => vmms.every(pid => identifyProcess(pid) === undefined), { what: 'the VMMs have ended' })
  await unbindBelow(dir)
  for (const slot of await slotsOf(dir)) {
    for (const tap of tapNames(tapPrefix(slot))) await removeTap(tap)
    for (const name of namespaceNames(tapPrefix(slot))) await removeNamespace(name, run)
    await run('nft', ['delete', 'table', 'inet', tableName(slot)]).catch((error: unknown) => {
      if (!(error instanceof CommandError)) throw error
    })
    await releaseSlot(slot)
  }
}

/**
 * Returns the slot numbers of the hosts. Each agent on this machine reserves a slot, whose number is part of the names
 * of its network devices and firewall tables.
 */
async function slotsOf(dir: string): Promise<number[]> {
  const slots: number[] = []
  for (const slot of await readdir(slotDir).catch(() => []))
    if ((await readIfExists(join(slotDir, slot)))?.startsWith(`${dir}/`)) slots.push(Number(slot))
  return slots
}
