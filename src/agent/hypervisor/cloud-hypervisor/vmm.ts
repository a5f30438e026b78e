import { chown, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { countOf, parseWords, TwoCounts } from '../../guest/answers.ts'
import { runDir } from '../isolation.ts'
import { answerMs, type GuestMemory } from '../running-vm.ts'
import type { VmContext } from '../vmm/platform.ts'
import { snapshotMs } from '../vmm/snapshot.ts'
import { asObject, type VmmHttp } from '../vmm-http.ts'

export async function inspect(api: VmmHttp): Promise<'running' | 'paused'> {
  const { state } = asObject(await api.call('GET', '/vm.info'))
  if (state === 'Running') return 'running'
  if (state === 'Paused') return 'paused'
  throw new Error(`Cloud Hypervisor reports that its VM is "${String(state)}"`)
}

/** Pauses or resumes the VM. Reads the VM's state first, because pausing a paused VM is an error. */
export async function setPaused(api: VmmHttp, paused: boolean): Promise<void> {
  if ((await inspect(api)) === (paused ? 'paused' : 'running')) return
  await api.call('PUT', paused ? '/vm.pause' : '/vm.resume')
}

export async function setTakenMib({ api }: VmContext, mib: number): Promise<void> {
  await api.call('PUT', '/vm.resize', { desired_balloon: mib * 2 ** 20 })
}

/** Reads the memory usage from the guest, because the balloon has no statistics. Without an answer, the usage is 0. */
export async function readMemory({ api, guest, memoryMib }: VmContext): Promise<GuestMemory> {
  const [info, text] = await Promise.all([
    api.call('GET', '/vm.info'),
    guest.request('memory', answerMs).catch(() => '0 0'),
  ])
  const [total, available] = parseWords(TwoCounts, text)
  const ramUsedBytes = total > 0 && available > 0 && available <= total ? total - available : 0
  const actual = countOf(asObject(info).memory_actual_size ?? memoryMib * 2 ** 20)
  return { ramUsedBytes, balloonActualMib: Math.round(actual / 2 ** 20) }
}

/**
 * Directory in which Cloud Hypervisor saves a VM, relative to its working directory, because its user cannot access
 * absolute paths in the VM's directory.
 */
const newDir = 'new'

/** Writes memory, devices and settings of the paused guest to files that the agent owns. */
export async function writeState({ api, vmDir, user }: VmContext, target: string): Promise<void> {
  const dir = join(vmDir, runDir, newDir)
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { mode: 0o700 })
  if (user) await chown(dir, user.uid, user.gid)
  await api.call('PUT', '/vm.snapshot', { destination_url: `file://${newDir}` }, { timeoutMs: snapshotMs })
  for (const name of await readdir(dir)) {
    await rename(join(dir, name), join(target, name))
    if (user) await chown(join(target, name), 0, 0)
  }
  await rm(dir, { recursive: true, force: true })
}
