import { chown, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { countOf } from '../../guest/answers.ts'
import type { GuestMemory } from '../running-vm.ts'
import type { VmContext } from '../vmm/platform.ts'
import { snapshotMs } from '../vmm/snapshot.ts'
import { asObject, VmmError, type VmmHttp } from '../vmm-http.ts'
import { cellName } from './cell.ts'
import { type ApiCall, stateFiles } from './requests.ts'

export async function inspect(api: VmmHttp): Promise<'running' | 'paused'> {
  const { state } = asObject(await api.call('GET', '/'))
  if (state === 'Running') return 'running'
  if (state === 'Paused') return 'paused'
  throw new Error(`Firecracker reports that its VM is "${String(state)}"`)
}

/** Makes the API calls one after the other; each waits for the answer to the previous one. */
export async function callAll(api: VmmHttp, calls: readonly ApiCall[]): Promise<void> {
  for (const { method, path, body } of calls) await api.call(method, path, body)
}

/**
 * Pauses or resumes the VM, if it is not in that state already. Resuming a running VM is no error, but breaks the
 * guest's vsock for good (v1.16.1).
 */
export async function setPaused(api: VmmHttp, paused: boolean): Promise<void> {
  if ((await inspect(api)) === (paused ? 'paused' : 'running')) return
  await api.call('PATCH', '/vm', { state: paused ? 'Paused' : 'Resumed' })
}

export async function setTakenMib({ api }: VmContext, mib: number): Promise<void> {
  await api.call('PATCH', '/balloon', { amount_mib: mib })
}

/**
 * Reads the balloon's statistics. Until the guest has reported some, Firecracker refuses the call or omits the memory.
 */
export async function readMemory({ api, memoryMib }: VmContext): Promise<GuestMemory> {
  const stats = await api.call('GET', '/balloon/statistics').then(asObject, (error: unknown) => {
    if (error instanceof VmmError) return asObject(undefined)
    throw error
  })
  const total = countOf(stats.total_memory)
  const available = countOf(stats.available_memory)
  const ramUsedBytes = total > 0 && available > 0 && available <= total ? total - available : 0
  return { ramUsedBytes, balloonActualMib: Math.max(0, memoryMib - countOf(stats.actual_mib)) }
}

/** Writes memory and devices of the paused guest to files that the agent owns. */
export async function writeState({ api, vmDir, user }: VmContext, target: string): Promise<void> {
  const cell = join(vmDir, cellName)
  const made = { memory: 'new.memory', state: 'new.state' }
  for (const name of Object.values(made)) await rm(join(cell, name), { force: true })
  const body = { snapshot_type: 'Full', snapshot_path: made.state, mem_file_path: made.memory }
  await api.call('PUT', '/snapshot/create', body, { timeoutMs: snapshotMs })
  for (const name of ['memory', 'state'] as const) {
    await rename(join(cell, made[name]), join(target, stateFiles[name]))
    if (user) await chown(join(target, stateFiles[name]), 0, 0)
  }
}
