/** Runs one program in a disposable VM. */
import { mkdir, rm } from 'node:fs/promises'
import type { VmSpec } from '../../contract/agent.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Semaphore } from '../../lib/semaphore.ts'
import type { Frame } from '../guest/frames.ts'
import type { Driver, RunningVm, RawDrive, Watcher } from '../hypervisor/driver.ts'
import { stepContext } from '../vm/step-context.ts'

export interface VmRun {
  readonly vmId: string
  /** The VM's directory, which is removed afterwards. */
  readonly dir: string
  readonly spec: VmSpec
  readonly drives: readonly RawDrive[]
  /**
   * Receives log lines of the program. Call `ack` when lines up to a sequence number are stored, so that the guest may
   * discard them.
   */
  readonly onFrames: (frames: readonly Frame[], ack: (seq: number) => void) => void
  readonly say: (line: string) => void
}

/**
 * Boots a VM, waits until its program exits, and removes the VM.
 * @returns the program's exit code
 * @throws Error if the VM does not start, or stops before the program exits; after an abort, the signal's reason
 */
export async function runInVm(
  { driver, bootSlots }: { readonly driver: Driver; readonly bootSlots: Semaphore },
  vm: VmRun,
  signal: AbortSignal,
): Promise<number> {
  const { vmId, dir, spec, drives } = vm
  const ended = Promise.withResolvers<number>()
  let runningVm: RunningVm | undefined
  ended.promise.catch(() => undefined)
  const watcher: Watcher = {
    onFrames: frames => vm.onFrames(frames, seq => runningVm?.ack(seq)),
    onExit: ended.resolve,
    onBroken: ended.reject,
    onGone: detail => ended.reject(new Error(`the builder's VM ended by itself: ${detail || 'its console is silent'}`)),
  }
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const context = stepContext(vm.say, () => undefined, signal)
  const home = { vmId, dir, spec, drives }
  try {
    const prepared = await driver.prepare(home, context)
    const release = await bootSlots.take(signal)
    const booted = await driver.boot(home, prepared, 1, watcher, context).finally(release)
    runningVm = booted
    try {
      const { workload } = booted
      return workload.state === 'exited' ? workload.code : await abortable(ended.promise, signal)
    } finally {
      // Give the guest time to send its last lines.
      await booted.stop(signal.aborted ? 0 : 2000)
    }
  } finally {
    await driver.release(vmId, dir)
    await rm(dir, { recursive: true, force: true })
  }
}
