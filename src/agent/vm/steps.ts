import type { VmPut, VmSpec, VmStep } from '../../contract/agent.ts'
import { abortable } from '../../lib/abortable.ts'
import { unbindBelow } from '../hypervisor/bind.ts'
import { hasMark } from '../hypervisor/transfer/marks.ts'
import type { RunningVm, SnapshotSource, VmHome } from '../hypervisor/driver.ts'
import type { PrepareContext } from '../base/prepare-context.ts'
import type { Adjuster } from './adjust.ts'
import type { VmProcess } from './vm-process.ts'
import type { VmAction } from './decide.ts'
import type { ActorDeps } from './deps.ts'
import { StepError } from '../base/step-error.ts'
import { isOver, receive, sendAway } from './migration.ts'
import { originKey, originOf, placeOf } from './origin.ts'
import type { VmRecordFile } from './record-file.ts'
import type { Stage } from './observe.ts'
import { bootKey } from './record.ts'
import { stepContext } from './step-context.ts'

/** Of a VM that goes for good and leaves nothing behind; one with volumes may have more to write. */
const absentGraceMs = 2_000

export interface StepsDeps extends ActorDeps {
  readonly recordFile: VmRecordFile
  readonly body: VmProcess
  readonly adjuster: Adjuster
  readonly desired: () => VmPut
  /** Resolves after the next wish, at the latest. */
  readonly nextChange: () => Promise<void>
  /** The agent itself ends. */
  readonly ending: AbortSignal
  readonly onStage: (stage: Stage) => void
  readonly onStep: (step: VmStep) => void
  readonly onChange: () => void
}

/** How each decision is carried out. */
export class Steps {
  readonly #deps: StepsDeps
  /** False at the start: an earlier agent may have ended before it cleared. */
  #cleared = false

  constructor(deps: StepsDeps) {
    this.#deps = deps
  }

  /** Carries out one decision. @throws what the host, the hypervisor or the guest says; aborted: the signal's reason */
  async perform(action: VmAction, signal: AbortSignal): Promise<void> {
    const { exitCode } = this.#deps.recordFile.record
    const { runningVm } = this.#deps.body
    if (action === 'boot' && (await this.#hasLeft())) return
    if (action === 'boot' || action === 'receive') return this.#bring(action, signal)
    if (action === 'stop') return this.#stopRunningVm()
    if (action === 'release') return this.#release()
    if (action === 'clear') return this.#clear()
    if (action === 'crash') return this.crash('exited', `the workload ended with code ${exitCode}`)
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
    if (action === 'resume') this.#deps.body.watchHealth()
    else this.#deps.body.unhealthy()
  }

  /** A new process: it boots, goes on from a snapshot, or takes the VM from another host. */
  async #bring(action: 'boot' | 'receive', signal: AbortSignal): Promise<void> {
    const { driver, bootSlots, vmLog } = this.#deps
    const boot = this.#deps.recordFile.record.boot + 1
    this.#deps.onStage('preparing')
    this.#cleared = false
    await this.#deps.recordFile.restartPause(signal)
    await abortable(this.#deps.ready, signal)
    this.#deps.adjuster.forget()
    await this.#deps.recordFile.save({ boot, steps: [], crash: null, exitCode: null })
    const context = stepContext(vmLog.say, step => this.#deps.onStep(step), signal)
    const source =
      action === 'boot' ? await originOf(this.#deps, this.#deps.desired(), this.#deps.recordFile.record) : undefined
    if (action === 'receive' || source) vmLog.join(boot)
    if (action === 'receive') return this.#receive(boot, context)
    const prepare = () => driver.prepare({ ...this.#home(), ...(source ? { from: source } : {}) }, context)
    // A boot times the parts of it: image, base.
    const prepared = source ? await context.time('prepare', prepare) : await prepare()
    const home = { ...this.#home(), ...(source ? { from: await this.#withVolumes(source) } : {}) }
    const release = await bootSlots.take(signal)
    try {
      this.#deps.onStage('booting')
      this.#deps.body.expect() // before it can end: a short one ends before the boot has returned
      const runningVm = await driver
        .boot(home, prepared, boot, this.#deps.body.watcher(boot), context)
        .catch((error: unknown) => Promise.reject(StepError.wrap('boot_failed', error)))
      this.#deps.body.take(runningVm)
      await this.#startWithVolumes(runningVm, source === undefined)
      await this.#inhabit(runningVm, this.#deps.desired().spec, source?.made.healthy)
    } finally {
      release()
    }
  }

  /** The volumes of the snapshot's guest, put back to what they were where the same VM goes on. */
  async #withVolumes(source: SnapshotSource): Promise<SnapshotSource> {
    if ((source.made.disks ?? []).length === 0) return source
    const { adjuster, recordFile, volumes, desired } = this.#deps
    const { vmId, spec } = desired()
    const { from, disks } = spec
    for (const disk of disks)
      if (from && !from.renew && !disk.readOnly) await volumes.rewind(disk, vmId, from.snapshotId)
    return {
      ...source,
      disks: (await adjuster.open(disks)).map(one => ({ ...one, of: placeOf(one.disk.volumeId, from?.clones) })),
      // From here on the guest may write: to go back once more would lose that.
      beforeRun: () => recordFile.save({ origin: originKey(spec) }),
    }
  }

  /** A workload with volumes starts when it has them; one that goes on has been started. */
  async #startWithVolumes(runningVm: RunningVm, begins: boolean): Promise<void> {
    const { spec } = this.#deps.desired()
    if (spec.disks.length === 0) return
    try {
      await this.#deps.adjuster.adjust(runningVm, spec)
      if (begins) await runningVm.startWorkload()
    } catch (error) {
      this.#deps.body.drop()
      await runningVm.stop(0)
      throw error
    }
  }

  /** @param spec what it runs: the wish may be a newer one by now */
  async #inhabit(runningVm: RunningVm, spec: VmSpec, wasHealthy = false): Promise<void> {
    const { running } = runningVm
    const { imageDigest } = running.prepared
    this.#deps.recordFile.note({ running, bootKey: bootKey(spec), imageDigest, paused: false })
    await this.#deps.body.started(wasHealthy)
  }

  async #receive(boot: number, context: PrepareContext): Promise<void> {
    const { driver } = this.#deps
    const { spec } = this.#deps.desired()
    const { incoming } = spec
    if (!incoming) throw new Error('BUG: nothing to receive')
    const home = this.#arriving()
    const watcher = this.#deps.body.watcher(boot)
    this.#deps.body.expect()
    const come = await receive(this.#migration(), incoming.migrationId, {
      signal: context.signal,
      ending: this.#deps.ending,
      prepare: () => driver.prepare(home, context),
      listen: async prepared => driver.receive?.(home, prepared, boot, watcher, context),
    })
    if (!come) return
    this.#deps.body.take(come)
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
    const { driver, recordFile, volumes, onChange, desired, nextChange, body, adjuster } = this.#deps
    const onLeft = () => {
      body.drop()
      adjuster.forget()
      recordFile.note({ running: null, paused: false })
    }
    return { driver, recordFile, volumes, onChange, desired, nextChange, onLeft, onLost: () => adjuster.forget() }
  }

  async adopted(runningVm: RunningVm): Promise<void> {
    this.#deps.body.take(runningVm)
    const { workload } = runningVm
    const paused = (await runningVm.inspect()) === 'paused'
    const { migration } = this.#deps.recordFile.record
    // What is still arriving is not adopted: this one was let run here, and the agent before could not say so.
    const hasCome = migration?.role === 'target' && !isOver(migration)
    await this.#deps.recordFile.save({
      paused,
      ...(workload.state === 'exited' ? { exitCode: workload.code } : {}),
      ...(hasCome ? { migration: { ...migration, phase: 'switched', percent: 100 } } : {}),
    })
    this.#deps.log.info({ vmId: this.#deps.desired().vmId, pid: runningVm.running.process.pid }, 'VM adopted')
    if (!paused && workload.state === 'running') this.#deps.body.watchHealth()
  }

  async #restart(runningVm: RunningVm, signal: AbortSignal): Promise<void> {
    await this.#deps.recordFile.countRestart()
    await this.#deps.recordFile.restartPause(signal)
    this.#deps.body.expect()
    await runningVm.startWorkload()
    await this.#deps.body.started()
  }

  async #stopRunningVm(): Promise<void> {
    this.#deps.onStage('stopping')
    this.#deps.body.quiet()
    const { runningVm } = this.#deps.body
    if (this.isKept()) await runningVm?.kill()
    else {
      const hasVolumes = (this.#deps.recordFile.record.disks ?? []).length > 0
      const isBrief = this.#deps.desired().want === 'absent' && !hasVolumes
      await (isBrief ? runningVm?.stop(absentGraceMs, 'exit') : runningVm?.stop(this.#deps.stopGraceMs))
    }
    this.#deps.body.drop()
    await this.lost()
  }

  /** A snapshot counts on its volumes: not even its end may write to them. */
  isKept(): boolean {
    const { keptFor } = this.#deps.recordFile.record
    return keptFor !== undefined && this.#deps.hasSnapshot(keptFor)
  }

  /** It was let run elsewhere, and what was here died before that could be told: nothing starts it here. */
  async #hasLeft(): Promise<boolean> {
    const { recordFile, dir, onChange } = this.#deps
    const { migration } = recordFile.record
    if (migration?.role !== 'source' || isOver(migration) || !hasMark(dir, 'left')) return false
    await recordFile.save({ migration: { ...migration, phase: 'switched', percent: 100 } })
    onChange()
    return true
  }

  async lost(): Promise<void> {
    await this.#hasLeft()
    this.#deps.adjuster.forget()
    await this.#deps.recordFile.save({ running: null, paused: false })
  }

  async gone(): Promise<void> {
    this.#deps.adjuster.forget()
    if (this.#deps.recordFile.restartsLeft(this.#deps.desired().spec.maxRestarts))
      await this.#deps.recordFile.countRestart()
    else await this.crash('vm_died', 'the VM ended unexpectedly, more often than it may')
  }

  get cleared(): boolean {
    return this.#cleared
  }

  /** Takes away what is there, not what the record names: it lacks a volume whose attach was cut short. */
  async #clear(): Promise<void> {
    this.#deps.adjuster.forget()
    await unbindBelow(this.#deps.dir)
    this.#cleared = true
  }

  /**
   * The agent ends, and the VM has no process: there may be no agent after this one to take away what is left.
   * @param stopVm the agent ends its VMs: the host keeps nothing but the directories of those that shall start again
   */
  async leaveHost(stopVm: boolean): Promise<void> {
    const { vmId, want } = this.#deps.desired()
    try {
      if (want === 'absent') await this.#release()
      else if (stopVm) await this.#giveBack()
    } catch (err) {
      this.#deps.log.warn({ vmId, err }, 'a VM that has ended left something on the host: the next start removes it')
    }
  }

  /** Mounts, tap, rules and cgroup. Idempotent. */
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
    this.#deps.vmLog.say(`crashed: ${message}`)
    await this.#deps.recordFile.save({ crash: { generation: this.#deps.desired().generation, code, message } })
  }

  #home(): VmHome {
    const { vmId, spec } = this.#deps.desired()
    return { vmId, dir: this.#deps.dir, spec }
  }
}
