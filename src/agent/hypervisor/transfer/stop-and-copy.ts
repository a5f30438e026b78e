/**
 * Migration by stop and copy, for hypervisors without live migration: the source pauses the guest and sends its state,
 * and the target starts it.
 */
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { abortable } from '../../../lib/abortable.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import type { Arrival, MigrationProgress, Running, RunningVm } from '../driver.ts'
import { endProcess } from '../process.ts'
import { fileReceiver } from './files.ts'
import { clearMark, hasMark, setMark } from './marks.ts'
import { listenForVm, openWire, type Wire } from './wire.ts'

/** Timeouts for the target: to load the guest after the last byte (`loadMs`), and then to start it (`runMs`). */
const loadMs = 120_000
const runMs = 30_000

/** A VM to migrate, with the steps that its driver implements. */
export interface Departure {
  readonly vmDir: string
  readonly running: Running
  /** VMM, its version and the CPU model. The target must have the same values. */
  readonly madeBy: string
  /** Estimates how many bytes the migration sends. */
  readonly totalBytes: () => Promise<number>
  /** Sends data that can be sent before the guest is paused. */
  readonly sendAhead?: (wire: Wire, onBytes: OnBytes) => Promise<void>
  /**
   * Pauses the guest and sends everything that `sendAhead` did not send.
   * @param dir an empty directory, which is removed afterwards
   */
  readonly sendState: (wire: Wire, dir: string, onBytes: OnBytes) => Promise<void>
  /** Lets the guest run on this host again after a failed migration. Idempotent. */
  readonly resume: () => Promise<void>
}

type OnBytes = (bytes: number) => void

/**
 * Moves the VM to the target. If a step before the message `go` fails, the guest resumes on this host. After `go`, the
 * guest resumes on this host only if the target reports that it did not start it, so that two guests never use the same
 * disk.
 * @param release awaited before the guest is paused
 * @throws the signal's reason when aborted, otherwise a StepError or Error. In both cases the guest keeps running on
 * this host.
 */
export async function leaveByCopy(
  vm: Departure,
  uri: string,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { vmDir } = vm
  if (hasMark(vmDir, 'left')) return { downtimeMs: 0 } // the VM moved before the agent restarted
  let wire: Wire | undefined
  try {
    signal.throwIfAborted()
    wire = await openWire(uri, vm.madeBy)
    // The signal may have been aborted while the connection was opened; the listener below would miss that.
    signal.throwIfAborted()
    const closing = wire
    signal.addEventListener('abort', () => closing.close(), { once: true })
    return await sendVm(vm, wire, onProgress, signal, release)
  } catch (error) {
    if (hasMark(vmDir, 'left')) return { downtimeMs: 0 }
    await vm.resume()
    throw signal.aborted ? signal.reason : error
  } finally {
    wire?.close()
    await rm(leavingDir(vmDir), { recursive: true, force: true })
  }
}

const leavingDir = (vmDir: string) => join(vmDir, 'leaving')

async function sendVm(
  vm: Departure,
  wire: Wire,
  onProgress: (progress: MigrationProgress) => void,
  signal: AbortSignal,
  release?: () => Promise<void>,
): Promise<{ downtimeMs: number }> {
  const { vmDir, running } = vm
  const totalBytes = await vm.totalBytes()
  let done = 0
  const onBytes = (bytes: number) => {
    done += bytes
    const percent = Math.min(100, Math.round((1000 * done) / totalBytes) / 10)
    onProgress({ percent, transferredBytes: done, totalBytes })
  }
  await vm.sendAhead?.(wire, onBytes)
  signal.throwIfAborted()
  await release?.()
  const stoppedMs = performance.now()
  const dir = leavingDir(vmDir)
  await rm(dir, { recursive: true, force: true })
  await mkdir(dir, { mode: 0o700 })
  await vm.sendState(wire, dir, onBytes)
  await wire.say({ say: 'complete' })
  await abortable(wire.expect('loaded'), AbortSignal.any([signal, AbortSignal.timeout(loadMs)]))
  signal.throwIfAborted()
  await setMark(vmDir, 'left')
  await wire.say({ say: 'go' })
  await untilRunning(wire, vmDir)
  await endProcess(running)
  return { downtimeMs: Math.round(performance.now() - stoppedMs) }
}

/** Waits for the target's answer. The guest may run on this host again only if the answer is `failed`. */
async function untilRunning(wire: Wire, vmDir: string): Promise<void> {
  const answer = await abortable(wire.next(), AbortSignal.timeout(runMs)).catch(() => undefined)
  if (answer?.kind !== 'message' || answer.message.say !== 'failed') return
  await clearMark(vmDir, 'left')
  throw new Error(`the target host could not start the VM: ${answer.message.reason}`)
}

/**
 * Listens for a VM from another host; the waiting process `running` will run it. If `take` fails, the process is killed
 * and the source gets the reason.
 * @param at `madeBy`: VMM, its version and the CPU model; the source must have the same values
 */
export async function awaitArrival(
  at: { readonly host: string; readonly madeBy: string; readonly vmDir: string },
  { running, guest }: { readonly running: Running; readonly guest: Pick<GuestChannel, 'close'> },
  take: (wire: Wire) => Promise<RunningVm>,
): Promise<Arrival> {
  await setMark(at.vmDir, 'arriving')
  const listener = await listenForVm(at.host, at.madeBy)
  const arrived = listener.wire.then(async wire => {
    try {
      return await take(wire)
    } catch (error) {
      await endProcess(running)
      const reason = error instanceof Error ? error.message : String(error)
      await wire.say({ say: 'failed', reason }).catch(() => undefined)
      throw error
    } finally {
      wire.close()
    }
  })
  arrived.catch(() => undefined)
  return {
    running,
    uri: listener.uri,
    arrived,
    cancel: async () => {
      listener.close()
      guest.close()
      await endProcess(running)
      await arrived.catch(() => undefined)
    },
  }
}

/**
 * Receives files until the source sends the message `complete`.
 * @param paths the path of each expected file, by name; other names are refused
 */
export async function receiveFiles(wire: Wire, paths: Readonly<Record<string, string>>): Promise<void> {
  const receiver = fileReceiver(paths)
  try {
    for (;;) {
      const frame = await wire.next()
      if (frame?.kind === 'data') await receiver.data(frame.offset, frame.data)
      else if (frame?.kind === 'message' && frame.message.say === 'file')
        await receiver.take(frame.message.name, frame.message.size)
      else if (frame?.kind === 'message' && frame.message.say === 'complete') return
      else throw new Error('the source host ended the transfer of the VM before all data was sent')
    }
  } finally {
    await receiver.close()
  }
}
