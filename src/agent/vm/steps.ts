import type { VmPut, VmSpec, VmStep } from '../../contract/agent.ts'
import { abortable } from '../../lib/abortable.ts'
import { unbindBelow } from '../hypervisor/bind.ts'
import { hasMark } from '../hypervisor/transfer/marks.ts'
import type { Machine, PrepareContext, SnapshotSource, VmHome } from '../hypervisor/driver.ts'
import type { Adjuster } from './adjust.ts'
import type { Body } from './body.ts'
import type { VmAction } from './decide.ts'
import type { ActorDeps } from './deps.ts'
import { StepError } from './errors.ts'
import { isOver, receive, sendAway } from './migration.ts'
import { originKey, originOf, placeOf } from './origin.ts'
import type { Notebook } from './notebook.ts'
import type { Stage } from './observe.ts'
import { bootKey } from './record.ts'
import { stepContext } from './step-context.ts'

/** Of a VM that goes for good and leaves nothing behind; one with volumes may have more to write. */
const absentGraceMs = 2_000

export interface StepsDeps extends ActorDeps {
  readonly notebook: Notebook
  readonly body: Body
  readonly adjuster: Adjuster
  readonly wish: () => VmPut
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
    const { exitCode } = this.#deps.notebook.record
    const { machine } = this.#deps.body
    if (action === 'boot' && (await this.#hasLeft())) return
    if (action === 'boot' || action === 'receive') return this.#bring(action, signal)
    if (action === 'stop') return this.#stopMachine()
    if (action === 'release') return this.#release()
    if (action === 'clear') return this.#clear()
    if (action === 'crash') return this.crash('exited', `the workload ended with code ${exitCode}`)
    if (machine === undefined) return
    if (action === 'restart') return this.#restart(machine, signal)
    if (action === 'adjust') return this.#deps.adjuster.adjust(machine, this.#deps.wish().spec)
    if (action === 'hand-over') return this.#handOver(machine, signal)
    if (action === 'pause' || action === 'resume') return this.#pause(machine, action)
  }

  async #pause(machine: Machine, action: 'pause' | 'resume'): Promise<void> {
    const { driver } = this.#deps
    if (!driver.capabilities.pause) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot pause`)
    await (action === 'pause' ? machine.pause() : machine.resume())
    await this.#deps.notebook.save({ paused: action === 'pause' })
    if (action === 'resume') this.#deps.body.watchHealth()
    else this.#deps.body.unhealthy()
  }

  /** A new process: it boots, goes on from a snapshot, or takes the VM from another host. */
  async #bring(action: 'boot' | 'receive', signal: AbortSignal): Promise<void> {
    const { driver, bootSlots, vmLog } = this.#deps
    const boot = this.#deps.notebook.record.boot + 1
    this.#deps.onStage('preparing')
    this.#cleared = false
    await this.#deps.notebook.restartPause(signal)
    await abortable(this.#deps.ready, signal)
    this.#deps.adjuster.forget()
    await this.#deps.notebook.save({ boot, steps: [], crash: null, exitCode: null })
    const context = stepContext(vmLog.say, step => this.#deps.onStep(step), signal)
    const source =
      action === 'boot' ? await originOf(this.#deps, this.#deps.wish(), this.#deps.notebook.record) : undefined
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
      const machine = await driver
        .boot(home, prepared, boot, this.#deps.body.watcher(boot), context)
        .catch((error: unknown) => Promise.reject(StepError.wrap('boot_failed', error)))
      this.#deps.body.take(machine)
      await this.#startWithVolumes(machine, source === undefined)
      await this.#inhabit(machine, this.#deps.wish().spec, source?.made.healthy)
    } finally {
      release()
    }
  }

  /** The volumes of the snapshot's guest, put back to what they were where the same VM goes on. */
  async #withVolumes(source: SnapshotSource): Promise<SnapshotSource> {
    if ((source.made.disks ?? []).length === 0) return source
    const { adjuster, notebook, volumes, wish } = this.#deps
    const { vmId, spec } = wish()
    const { from, disks } = spec
    for (const disk of disks)
      if (from && !from.renew && !disk.readOnly) await volumes.rewind(disk, vmId, from.snapshotId)
    return {
      ...source,
      disks: (await adjuster.open(disks)).map(one => ({ ...one, of: placeOf(one.disk.volumeId, from?.clones) })),
      // From here on the guest may write: to go back once more would lose that.
      beforeRun: () => notebook.save({ origin: originKey(spec) }),
    }
  }

  /** A workload with volumes starts when it has them; one that goes on has been started. */
  async #startWithVolumes(machine: Machine, begins: boolean): Promise<void> {
    const { spec } = this.#deps.wish()
    if (spec.disks.length === 0) return
    try {
      await this.#deps.adjuster.adjust(machine, spec)
      if (begins) await machine.startWorkload()
    } catch (error) {
      this.#deps.body.drop()
      await machine.stop(0)
      throw error
    }
  }

  /** @param spec what it runs: the wish may be a newer one by now */
  async #inhabit(machine: Machine, spec: VmSpec, wasHealthy = false): Promise<void> {
    const { running } = machine
    const { imageDigest } = running.prepared
    this.#deps.notebook.note({ running, bootKey: bootKey(spec), imageDigest, paused: false })
    await this.#deps.body.started(wasHealthy)
  }

  async #receive(boot: number, context: PrepareContext): Promise<void> {
    const { driver } = this.#deps
    const { spec } = this.#deps.wish()
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
    const { driver, volumes, adjuster, wish } = this.#deps
    const { vmId, spec } = wish()
    if (spec.disks.length === 0) return this.#home()
    if (!driver.movesVolumes)
      throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot receive a VM with volumes`)
    return { ...this.#home(), arriving: volumes.arriving(spec.disks, vmId, disks => adjuster.expect(disks)) }
  }

  #handOver(machine: Machine, signal: AbortSignal): Promise<void> {
    return sendAway(this.#migration(), machine, this.#deps.wish().spec, signal)
  }

  #migration() {
    const { driver, notebook, volumes, onChange, wish, nextChange, body, adjuster } = this.#deps
    const onLeft = () => {
      body.drop()
      adjuster.forget()
      notebook.note({ running: null, paused: false })
    }
    return { driver, notebook, volumes, onChange, wish, nextChange, onLeft, onLost: () => adjuster.forget() }
  }

  async adopted(machine: Machine): Promise<void> {
    this.#deps.body.take(machine)
    const { workload } = machine
    const paused = (await machine.inspect()) === 'paused'
    const { migration } = this.#deps.notebook.record
    // What is still arriving is not adopted: this one was let run here, and the agent before could not say so.
    const hasCome = migration?.role === 'target' && !isOver(migration)
    await this.#deps.notebook.save({
      paused,
      ...(workload.state === 'exited' ? { exitCode: workload.code } : {}),
      ...(hasCome ? { migration: { ...migration, phase: 'switched', percent: 100 } } : {}),
    })
    this.#deps.log.info({ vmId: this.#deps.wish().vmId, pid: machine.running.process.pid }, 'VM adopted')
    if (!paused && workload.state === 'running') this.#deps.body.watchHealth()
  }

  async #restart(machine: Machine, signal: AbortSignal): Promise<void> {
    await this.#deps.notebook.countRestart()
    await this.#deps.notebook.restartPause(signal)
    this.#deps.body.expect()
    await machine.startWorkload()
    await this.#deps.body.started()
  }

  async #stopMachine(): Promise<void> {
    this.#deps.onStage('stopping')
    this.#deps.body.quiet()
    const { machine } = this.#deps.body
    if (this.isKept()) await machine?.kill()
    else {
      const hasVolumes = (this.#deps.notebook.record.disks ?? []).length > 0
      const isBrief = this.#deps.wish().want === 'absent' && !hasVolumes
      await (isBrief ? machine?.stop(absentGraceMs, 'exit') : machine?.stop(this.#deps.stopGraceMs))
    }
    this.#deps.body.drop()
    await this.lost()
  }

  /** A snapshot counts on its volumes: not even its end may write to them. */
  isKept(): boolean {
    const { keptFor } = this.#deps.notebook.record
    return keptFor !== undefined && this.#deps.hasSnapshot(keptFor)
  }

  /** It was let run elsewhere, and what was here died before that could be told: nothing starts it here. */
  async #hasLeft(): Promise<boolean> {
    const { notebook, dir, onChange } = this.#deps
    const { migration } = notebook.record
    if (migration?.role !== 'source' || isOver(migration) || !hasMark(dir, 'left')) return false
    await notebook.save({ migration: { ...migration, phase: 'switched', percent: 100 } })
    onChange()
    return true
  }

  async lost(): Promise<void> {
    await this.#hasLeft()
    this.#deps.adjuster.forget()
    await this.#deps.notebook.save({ running: null, paused: false })
  }

  async gone(): Promise<void> {
    this.#deps.adjuster.forget()
    if (this.#deps.notebook.restartsLeft(this.#deps.wish().spec.maxRestarts)) await this.#deps.notebook.countRestart()
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
    const { vmId, want } = this.#deps.wish()
    try {
      if (want === 'absent') await this.#release()
      else if (stopVm) await this.#giveBack()
    } catch (err) {
      this.#deps.log.warn({ vmId, err }, 'a VM that has ended left something on the host: the next start removes it')
    }
  }

  /** Mounts, tap, rules and cgroup. Idempotent. */
  async #giveBack(): Promise<void> {
    await this.#deps.driver.release(this.#deps.wish().vmId, this.#deps.dir)
    await this.#clear()
  }

  async #release(): Promise<void> {
    this.#deps.onStage('stopping')
    await this.#giveBack()
    await this.#deps.vmLog.flush()
    if (!(await this.#deps.bury())) return
    this.#deps.notebook.note({ running: null, crash: null })
    this.#deps.onStage('absent')
  }

  async crash(code: string, message: string): Promise<void> {
    this.#deps.vmLog.say(`crashed: ${message}`)
    await this.#deps.notebook.save({ crash: { generation: this.#deps.wish().generation, code, message } })
  }

  #home(): VmHome {
    const { vmId, spec } = this.#deps.wish()
    return { vmId, dir: this.#deps.dir, spec }
  }
}
