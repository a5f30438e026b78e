import type { VmPut, VmSpec, VmStep } from '../../contract/agent.ts'
import { abortable } from '../../lib/abortable.ts'
import { unbindBelow } from '../hypervisor/bind.ts'
import { hasMark } from '../hypervisor/transfer/marks.ts'
import type { RunningVm, VmHome } from '../hypervisor/driver.ts'
import type { PrepareContext } from '../base/prepare-context.ts'
import type { Adjuster } from './adjust.ts'
import type { VmProcess } from './vm-process.ts'
import type { VmAction } from './decide.ts'
import type { ActorDeps } from './deps.ts'
import { StepError } from '../base/step-error.ts'
import { isOver, receive, sendAway } from './migration.ts'
import { originOf } from './origin.ts'
import type { VmRecordFile } from './record-file.ts'
import type { Stage } from './observe.ts'
import { bootKey } from './record.ts'
import { openRestored } from './restored-volumes.ts'
import { stepContext } from './step-context.ts'

/** Grace period when a VM without volumes is deleted: it has no data to flush. */
const absentGraceMs = 2_000

export interface StepsDeps extends ActorDeps {
  readonly recordFile: VmRecordFile
  readonly vmProcess: VmProcess
  readonly adjuster: Adjuster
  readonly desired: () => VmPut
  /** Resolves at the next change of the desired state, and possibly earlier for another reason. */
  readonly nextChange: () => Promise<void>
  /** The signal that is aborted when the agent stops. */
  readonly ending: AbortSignal
  readonly onStage: (stage: Stage) => void
  readonly onStep: (step: VmStep) => void
  readonly onChange: () => void
}

/** Carries out the steps that `decide` chooses for one VM. */
export class Steps {
  readonly #deps: StepsDeps
  /** Whether `#clear` is done. Initially false, because the agent may have been stopped before it cleared the VM. */
  #cleared = false

  constructor(deps: StepsDeps) {
    this.#deps = deps
  }

  /** Carries out one step. @throws the error of host, hypervisor or guest; after an abort, the signal's reason */
  async perform(action: VmAction, signal: AbortSignal): Promise<void> {
    const { exitCode } = this.#deps.recordFile.record
    const { runningVm } = this.#deps.vmProcess
    if (action === 'boot' && (await this.#hasLeft())) return
    if (action === 'boot' || action === 'receive') return this.#bring(action, signal)
    if (action === 'stop') return this.#stopRunningVm()
    if (action === 'release') return this.#release()
    if (action === 'clear') return this.#clear()
    if (action === 'crash') return this.crash('exited', `The program exited with code ${exitCode}.`)
    if (runningVm === undefined) return
    if (action === 'restart') return this.#restart(runningVm, signal)
    if (action === 'adjust') return this.#deps.adjuster.adjust(runningVm, this.#deps.desired().spec)
    if (action === 'hand-over') return this.#handOver(runningVm, signal)
    if (action === 'pause' || action === 'resume') return this.#pause(runningVm, action)
  }

  async #pause(runningVm: RunningVm, action: 'pause' | 'resume'): Promise<void> {
    const { driver } = this.#deps
    if (!driver.capabilities.pause) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot pause`)
    await (action === 'pause' ? runningVm.pause() : runningVm.resume())
    await this.#deps.recordFile.save({ paused: action === 'pause' })
    if (action === 'resume') this.#deps.vmProcess.watchHealth()
    else this.#deps.vmProcess.unhealthy()
  }

  /** Starts a process that boots, restores a snapshot, or receives the VM from another host. */
  async #bring(action: 'boot' | 'receive', signal: AbortSignal): Promise<void> {
    const { driver, bootSlots, vmLog } = this.#deps
    const boot = this.#deps.recordFile.record.boot + 1
    this.#deps.onStage('preparing')
    this.#cleared = false
    await this.#deps.recordFile.restartPause(signal)
    await abortable(this.#deps.ready, signal)
    await this.#deps.adjuster.closeVolumes()
    await this.#deps.recordFile.save({ boot, steps: [], crash: null, exitCode: null })
    const context = stepContext(vmLog.say, step => this.#deps.onStep(step), signal)
    const source =
      action === 'boot' ? await originOf(this.#deps, this.#deps.desired(), this.#deps.recordFile.record) : undefined
    if (action === 'receive' || source) vmLog.join(boot)
    if (action === 'receive') return this.#receive(boot, context)
    const prepare = () => driver.prepare({ ...this.#home(), ...(source ? { from: source } : {}) }, context)
    // Only a restore is measured as a whole here: for a boot, the driver measures the parts of `prepare` (image, base).
    const prepared = source ? await context.time('prepare', prepare) : await prepare()
    const home = { ...this.#home(), ...(source ? { from: await openRestored(this.#deps, source) } : {}) }
    const release = await bootSlots.take(signal)
    try {
      this.#deps.onStage('booting')
      // `expect` must precede the boot, because a short workload can exit before the boot has finished.
      this.#deps.vmProcess.expect()
      const runningVm = await driver
        .boot(home, prepared, boot, this.#deps.vmProcess.watcher(boot), context)
        .catch((error: unknown) => Promise.reject(StepError.wrap('boot_failed', error)))
      this.#deps.vmProcess.take(runningVm)
      await this.#startWithVolumes(runningVm, source === undefined)
      await this.#inhabit(runningVm, this.#deps.desired().spec, source?.made.healthy)
    } finally {
      release()
    }
  }

  /** Attaches the volumes, then starts the workload, unless the VM was restored with a running workload. */
  async #startWithVolumes(runningVm: RunningVm, begins: boolean): Promise<void> {
    const { spec } = this.#deps.desired()
    if (spec.disks.length === 0) return
    try {
      await this.#deps.adjuster.adjust(runningVm, spec)
      if (begins) await runningVm.startWorkload()
    } catch (error) {
      this.#deps.vmProcess.drop()
      await runningVm.stop(0)
      throw error
    }
  }

  /** Records the VM's new process. @param spec the spec that the process was started with; the desired one may be newer */
  async #inhabit(runningVm: RunningVm, spec: VmSpec, wasHealthy = false): Promise<void> {
    const { running } = runningVm
    const { imageDigest } = running.prepared
    this.#deps.recordFile.note({ running, bootKey: bootKey(spec), imageDigest, paused: false })
    await this.#deps.vmProcess.started(wasHealthy)
  }

  async #receive(boot: number, context: PrepareContext): Promise<void> {
    const { driver } = this.#deps
    const { spec } = this.#deps.desired()
    const { incoming } = spec
    if (!incoming) throw new Error('BUG: nothing to receive')
    const home = this.#arriving()
    const watcher = this.#deps.vmProcess.watcher(boot)
    this.#deps.vmProcess.expect()
    const come = await receive(this.#migration(), incoming.migrationId, {
      signal: context.signal,
      ending: this.#deps.ending,
      prepare: () => driver.prepare(home, context),
      listen: async prepared => driver.receive?.(home, prepared, boot, watcher, context),
    })
    if (!come) return
    this.#deps.vmProcess.take(come)
    this.#deps.adjuster.arrived()
    await this.#inhabit(come, spec)
  }

  #arriving(): VmHome {
    const { driver, volumes, adjuster, desired } = this.#deps
    const { vmId, spec } = desired()
    if (spec.disks.length === 0) return this.#home()
    if (!driver.movesVolumes)
      throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot receive a VM with volumes`)
    return { ...this.#home(), arriving: volumes.arriving(spec.disks, vmId, disks => adjuster.expect(disks)) }
  }

  #handOver(runningVm: RunningVm, signal: AbortSignal): Promise<void> {
    return sendAway(this.#migration(), runningVm, this.#deps.desired().spec, signal)
  }

  #migration() {
    const { driver, recordFile, volumes, onChange, desired, nextChange, vmProcess, adjuster } = this.#deps
    const onLeft = () => {
      vmProcess.drop()
      adjuster.forget()
      recordFile.note({ running: null, paused: false })
    }
    return { driver, recordFile, volumes, onChange, desired, nextChange, onLeft, onLost: () => adjuster.forget() }
  }

  async adopted(runningVm: RunningVm): Promise<void> {
    this.#deps.vmProcess.take(runningVm)
    const { workload } = runningVm
    const paused = (await runningVm.inspect()) === 'paused'
    const { migration } = this.#deps.recordFile.record
    // An adopted VM has arrived, even if its record has an unfinished migration to this host: the agent was stopped
    // before it could record the arrival.
    const hasCome = migration?.role === 'target' && !isOver(migration)
    await this.#deps.recordFile.save({
      paused,
      ...(workload.state === 'exited' ? { exitCode: workload.code } : {}),
      ...(hasCome ? { migration: { ...migration, phase: 'switched', percent: 100 } } : {}),
    })
    this.#deps.log.info({ vmId: this.#deps.desired().vmId, pid: runningVm.running.process.pid }, 'VM adopted')
    if (!paused && workload.state === 'running') this.#deps.vmProcess.watchHealth()
  }

  async #restart(runningVm: RunningVm, signal: AbortSignal): Promise<void> {
    await this.#deps.recordFile.countRestart()
    await this.#deps.recordFile.restartPause(signal)
    this.#deps.vmProcess.expect()
    await runningVm.startWorkload()
    await this.#deps.vmProcess.started()
  }

  async #stopRunningVm(): Promise<void> {
    this.#deps.onStage('stopping')
    this.#deps.vmProcess.quiet()
    const { runningVm } = this.#deps.vmProcess
    if (this.isKept()) await runningVm?.kill()
    else {
      const hasVolumes = (this.#deps.recordFile.record.disks ?? []).length > 0
      const isBrief = this.#deps.desired().want === 'absent' && !hasVolumes
      await (isBrief ? runningVm?.stop(absentGraceMs, 'exit') : runningVm?.stop(this.#deps.stopGraceMs))
    }
    this.#deps.vmProcess.drop()
    await this.lost()
    await this.#deps.adjuster.closeVolumes()
  }

  /** True if a snapshot depends on the VM's current volumes, so that not even a shutdown may write to them. */
  isKept(): boolean {
    const { keptFor } = this.#deps.recordFile.record
    return keptFor !== undefined && this.#deps.hasSnapshot(keptFor)
  }

  /**
   * True if the VM has migrated to another host and must not boot on this one. Also completes the VM record if the
   * agent was restarted before it could record the migration.
   */
  async #hasLeft(): Promise<boolean> {
    const { recordFile, dir, onChange } = this.#deps
    const { migration } = recordFile.record
    if (migration?.role !== 'source' || isOver(migration) || !hasMark(dir, 'left')) return false
    await recordFile.save({ migration: { ...migration, phase: 'switched', percent: 100 } })
    onChange()
    return true
  }

  /** Records that the VM has no process any more. Its volumes are closed in the next step, with retries. */
  async lost(): Promise<void> {
    await this.#hasLeft()
    await this.#deps.recordFile.save({ running: null, paused: false })
  }

  /** Called when the VM's process ended unexpectedly: counts a restart, or records a crash if no restart is allowed. */
  async gone(): Promise<void> {
    const { maxRestarts, restartOn } = this.#deps.desired().spec
    if (restartOn === 'never') await this.crash('vm_died', 'the VM ended unexpectedly, and is not restarted')
    else if (this.#deps.recordFile.restartsLeft(maxRestarts)) await this.#deps.recordFile.countRestart()
    else await this.crash('vm_died', 'the VM ended unexpectedly, and has used up its restarts')
  }

  get cleared(): boolean {
    return this.#cleared
  }

  /** Removes all mounts below the VM's directory, as an interrupted attach may have left one without a record. */
  async #clear(): Promise<void> {
    await this.#deps.adjuster.closeVolumes()
    await unbindBelow(this.#deps.dir)
    this.#cleared = true
  }

  /**
   * Cleans up after a VM without a process when the agent stops, because there may be no later agent on this host.
   * @param stopVm true if the agent also stops its VMs; then only the directories of VMs that will start again remain
   */
  async releaseAtEnd(stopVm: boolean): Promise<void> {
    const { vmId, want } = this.#deps.desired()
    try {
      if (want === 'absent') await this.#release()
      else if (stopVm) await this.#giveBack()
    } catch (err) {
      this.#deps.log.warn(
        { vmId, err },
        'cannot release the resources of an ended VM: the next start of the agent retries',
      )
    }
  }

  /** Releases the VM's mounts, tap, firewall rules and cgroup. Idempotent. */
  async #giveBack(): Promise<void> {
    await this.#deps.driver.release(this.#deps.desired().vmId, this.#deps.dir)
    await this.#clear()
  }

  async #release(): Promise<void> {
    this.#deps.onStage('stopping')
    await this.#giveBack()
    await this.#deps.vmLog.flush()
    if (!(await this.#deps.bury())) return
    this.#deps.recordFile.note({ running: null, crash: null })
    this.#deps.onStage('absent')
  }

  async crash(code: string, message: string): Promise<void> {
    // A program that exits with 0 and is not restarted has not crashed. The log already has its exit code.
    const isDone = code === 'exited' && this.#deps.recordFile.record.exitCode === 0
    if (!isDone) this.#deps.vmLog.say(`crashed: ${message}`)
    await this.#deps.recordFile.save({ crash: { generation: this.#deps.desired().generation, code, message } })
  }

  #home(): VmHome {
    const { vmId, spec } = this.#deps.desired()
    return { vmId, dir: this.#deps.dir, spec }
  }
}
