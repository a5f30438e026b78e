import { chown, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import type { SnapshotMade } from '../driver.ts'
import type { VmContext } from '../launch.ts'
import { balloonTarget, type GuestMemory } from '../machine.ts'
import { configFile, copySparse, scratchFile, snapshotNotes } from '../snapshot-files.ts'
import { asObject, VmmError, type VmmHttp } from '../vmm-http.ts'
import { cellName } from './cell.ts'
import { type ApiCall, files } from './requests.ts'

/** @throws Error when it is neither: such a process never became a VM. */
export async function inspect(api: VmmHttp): Promise<'running' | 'paused'> {
  const { state } = asObject(await api.call('GET', '/'))
  if (state === 'Running') return 'running'
  if (state === 'Paused') return 'paused'
  throw new Error(`Firecracker says that its VM is "${String(state)}"`)
}

/** Calls in this order, each after the one before was taken. */
export async function callAll(api: VmmHttp, calls: readonly ApiCall[]): Promise<void> {
  for (const { method, path, body } of calls) await api.call(method, path, body)
}

/** Idempotent, as Firecracker has it. */
export async function setState(api: VmmHttp, state: 'Paused' | 'Resumed'): Promise<void> {
  await api.call('PATCH', '/vm', { state })
}

/** Firecracker counts what the balloon takes, we count what the guest keeps. */
export async function setBalloon({ api, memoryMib }: VmContext, targetMib: number | null): Promise<void> {
  await api.call('PATCH', '/balloon', { amount_mib: memoryMib - balloonTarget(targetMib, memoryMib) })
}

/** Before the guest's first report the statistics are refused, or lack the memory. */
export async function readMemory({ api, memoryMib }: VmContext): Promise<GuestMemory> {
  const stats = await api.call('GET', '/balloon/statistics').then(asObject, (error: unknown) => {
    if (error instanceof VmmError) return asObject(undefined)
    throw error
  })
  const total = Number(stats.total_memory ?? 0)
  const available = Number(stats.available_memory ?? 0)
  const ramUsedBytes = total > 0 && available > 0 && available <= total ? total - available : 0
  return { ramUsedBytes, balloonActualMib: memoryMib - Number(stats.actual_mib ?? 0) }
}

/** Long enough for a large guest's memory on a slow disk. */
const snapshotMs = 600_000

/**
 * Everything at one instant: the guest stands still while Firecracker writes memory and devices into its cell, and the
 * scratch disk is copied. Its vsock connections are cut by that; the guest's channel comes back by itself.
 */
export async function takeSnapshot(vm: VmContext, target: string, logSeq: number): Promise<SnapshotMade> {
  const { api, running, vmDir, madeBy } = vm
  const wasRunning = (await inspect(api)) === 'running'
  const startedMs = performance.now()
  if (wasRunning) await setState(api, 'Paused')
  try {
    await writeState(vm, target)
    await copySparse(join(vmDir, scratchFile), join(target, scratchFile))
  } finally {
    if (wasRunning) await setState(api, 'Resumed')
  }
  const pauseMs = wasRunning ? Math.round(performance.now() - startedMs) : 0
  await copySparse(join(vmDir, configFile), join(target, configFile))
  // What the guest never touched takes no space; Firecracker writes it all.
  await run('fallocate', ['--dig-holes', join(target, files.memory)]).catch(() => undefined)
  const { imageDigest, notes } = running.prepared
  return { madeBy, imageDigest, pauseMs, notes: snapshotNotes(notes, logSeq) }
}

/** Memory and devices of the paused guest, as files of the agent's own. */
export async function writeState({ api, vmDir, user }: VmContext, target: string): Promise<void> {
  const cell = join(vmDir, cellName)
  const made = { memory: 'new.memory', state: 'new.state' }
  for (const name of Object.values(made)) await rm(join(cell, name), { force: true })
  const body = { snapshot_type: 'Full', snapshot_path: made.state, mem_file_path: made.memory }
  await api.call('PUT', '/snapshot/create', body, { timeoutMs: snapshotMs })
  for (const name of ['memory', 'state'] as const) {
    await rename(join(cell, made[name]), join(target, files[name]))
    if (user) await chown(join(target, files[name]), 0, 0)
  }
}
