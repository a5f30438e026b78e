import { mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { abortable } from '../../../lib/abortable.ts'
import type { MigrationProgress } from '../driver.ts'
import { endProcess } from '../process.ts'
import { configFile, scratchFile } from '../snapshot-files.ts'
import { sendFile } from '../transfer/files.ts'
import { clearMark, hasMark, setMark } from '../transfer/marks.ts'
import { openWire, type Wire } from '../transfer/wire.ts'
import type { VmContext } from '../vmm/platform.ts'
import { stateFiles } from './requests.ts'
import { setPaused, writeState } from './vmm.ts'

/** Timeouts for the target to load the guest after the last byte, and then to resume it. */
const loadMs = 120_000
const runMs = 30_000

/**
 * Migrates by stop and copy, because Firecracker has no live migration. The scratch disk is sent while the guest runs.
 * The guest is then paused for a snapshot, the changed parts of the disk, and the start on the target. If a step before
 * `go` fails, the guest resumes here. After `go` it resumes here only if the target reports that it did not start the
 * guest, so that two guests never use the same disk.
 * @throws the signal's reason when aborted, otherwise a StepError or Error. In both cases the guest keeps running here.
 */
export async function handOver(
  vm: VmContext,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { vmDir, api } = vm
  if (hasMark(vmDir, 'left')) return { downtimeMs: 0 } // an earlier agent completed the switchover
  let wire: Wire | undefined
  try {
    signal.throwIfAborted()
    wire = await openWire(uri, vm.madeBy)
    const closing = wire
    signal.addEventListener('abort', () => closing.close(), { once: true })
    return await sendVm(vm, wire, onProgress, signal, release)
  } catch (error) {
    if (hasMark(vmDir, 'left')) return { downtimeMs: 0 }
    await setPaused(api, false)
    throw signal.aborted ? signal.reason : error
  } finally {
    wire?.close()
    await rm(leavingDir(vmDir), { recursive: true, force: true })
  }
}

const leavingDir = (vmDir: string) => join(vmDir, 'leaving')

async function sendVm(
  vm: VmContext,
  wire: Wire,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { vmDir, api, running } = vm
  const scratch = join(vmDir, scratchFile)
  const totalBytes = (await stat(scratch)).size * 2 + vm.memoryMib * 2 ** 20
  let done = 0
  const onBytes = (bytes: number) => {
    done += bytes
    const percent = Math.min(100, Math.round((1000 * done) / totalBytes) / 10)
    onProgress({ percent, transferredBytes: done, totalBytes })
  }
  const sent = await sendFile(wire, scratchFile, scratch, undefined, onBytes)
  signal.throwIfAborted()
  await release?.()
  const stoppedMs = performance.now()
  await setPaused(api, true)
  const dir = leavingDir(vmDir)
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { mode: 0o700 })
  await writeState(vm, dir)
  await sendFile(wire, scratchFile, scratch, sent, onBytes)
  await sendFile(wire, configFile, join(vmDir, configFile))
  await sendFile(wire, stateFiles.memory, join(dir, stateFiles.memory), undefined, onBytes)
  await sendFile(wire, stateFiles.state, join(dir, stateFiles.state))
  await wire.say({ say: 'complete' })
  await abortable(wire.expect('loaded'), AbortSignal.any([signal, AbortSignal.timeout(loadMs)]))
  signal.throwIfAborted()
  await setMark(vmDir, 'left')
  await wire.say({ say: 'go' })
  await untilRunning(wire, vmDir)
  await endProcess(running)
  return { downtimeMs: Math.round(performance.now() - stoppedMs) }
}

/** Waits for the target's answer. Only its explicit `failed` lets the guest run here again. */
async function untilRunning(wire: Wire, vmDir: string): Promise<void> {
  const answer = await abortable(wire.next(), AbortSignal.timeout(runMs)).catch(() => undefined)
  if (answer?.kind !== 'message' || answer.message.say !== 'failed') return
  await clearMark(vmDir, 'left')
  throw new Error(`the target could not start the VM: ${answer.message.reason}`)
}
