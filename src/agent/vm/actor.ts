import { setTimeout as sleep } from 'node:timers/promises'
import type { SnapshotPut, VmExec, VmExecAnswer, VmObserved, VmPut, VmStats } from '../../contract/agent.ts'
import type { SnapshotMade } from '../hypervisor/driver.ts'
import { Adjuster } from './adjust.ts'
import { VmProcess } from './vm-process.ts'
import { canWait, decide, type VmAction, type VmFacts } from './decide.ts'
import type { ActorDeps } from './deps.ts'
import { StepError } from '../base/step-error.ts'
import { Jobs, notRunning } from './jobs.ts'
import { keepVm } from './snapshot.ts'
import { migrationFact } from './migration.ts'
import { VmRecordFile } from './record-file.ts'
import { isCrashed, observe, type Stage } from './observe.ts'
import { bootKey, type VmRecord } from './record.ts'
import { Retry } from './retry.ts'
import { Steps } from './steps.ts'
import { quiesce } from './quiesce.ts'

/** One VM on this host. It follows its wish level-triggered, one step at a time, until it is absent. */
export class VmActor {
  readonly #deps: ActorDeps
  readonly #end = new AbortController()
  readonly #retry = new Retry()
  readonly #jobs = new Jobs()
  readonly #recordFile: VmRecordFile
  readonly #body: VmProcess
  readonly #adjuster: Adjuster
  readonly #steps: Steps
  #desired: VmPut
  #stage: Stage = null
  #step: { readonly action: VmAction; readonly key: string; readonly abort: AbortController } | undefined
  #wake = Promise.withResolvers<void>()
  #loop: Promise<void> = Promise.resolve()

  constructor(deps: ActorDeps, desired: VmPut, record: VmRecord) {
    const { driver, volumes, guard } = deps
    const onChange = () => this.#publishObserved()
    const recordFile = new VmRecordFile(record, deps.saveRecord)
    this.#deps = deps
    this.#desired = desired
    this.#recordFile = recordFile
    this.#adjuster = new Adjuster({
      driver,
      volumes,
      guard,
      recordFile,
      onChange,
      vmId: desired.vmId,
      onError: err => deps.log.error({ err }, 'cannot close a volume'),
    })
    this.#body = new VmProcess({
      ...deps,
      vmId: desired.vmId,
      recordFile,
      spec: () => this.#desired.spec,
      onChange,
      onFact: () => this.#poke(),
      onBroken: reason => void this.#afterwards(this.#steps.crash('guest_protocol', reason)),
      onGone: () => void this.#afterwards(this.#steps.gone()),
    })
    this.#steps = new Steps({
      ...deps,
      recordFile,
      body: this.#body,
      adjuster: this.#adjuster,
      onChange,
      ending: this.#end.signal,
      desired: () => this.#desired,
      nextChange: () => this.#wake.promise,
      onStage: stage => this.#enter(stage),
      onStep: step => {
        recordFile.note({ steps: [...recordFile.record.steps, step] })
        this.#publishObserved()
      },
    })
  }

  get desired(): VmPut {
    return this.#desired
  }

  /** The snapshot that its process maps, or that it shall start from. */
  get snapshotId(): string | undefined {
    return this.#desired.spec.from?.snapshotId
  }

  observed(): VmObserved {
    const observed = observe({
      desired: this.#desired,
      record: this.#recordFile.record,
      stage: this.#stage,
      healthy: this.#body.healthy,
      fault: this.#retry.fault,
      disks: this.#adjuster.observed(),
      firewall: this.#deps.guard.guarded(this.#desired.vmId),
    })
    // Grows as long as the agent runs, whatever becomes of the clock.
    return { ...observed, atUs: Math.round((performance.timeOrigin + performance.now()) * 1000) }
  }

  /** What it depends on beyond its wish has changed. */
  look(): void {
    this.#poke()
  }

  /** Publishes what is seen. */
  report(): void {
    this.#publishObserved()
  }

  stats(nowMs: number): Promise<VmStats | undefined> {
    return this.#body.stats(nowMs)
  }

  /** @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `exec_failed` */
  async exec({ command, timeoutMs }: VmExec): Promise<VmExecAnswer> {
    const { runningVm } = this.#body
    if (!runningVm || this.#recordFile.record.paused) throw notRunning()
    if (!runningVm.exec) throw unsupported(this.#deps.driver.name)
    return runningVm.exec(command, timeoutMs)
  }

  /** @throws StepError `unsupported_by_hypervisor` */
  checkSnapshot(): void {
    const { driver } = this.#deps
    if (!driver.capabilities.snapshot) throw unsupported(driver.name)
  }

  /** Between two steps. @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `volumes_attached` */
  async takeSnapshot(desired: SnapshotPut, dir: string): Promise<SnapshotMade> {
    this.checkSnapshot()
    const { driver, volumes } = this.#deps
    const onQuiesced = () => this.#body.unhealthy()
    const taken = this.#jobs.add(async runningVm => {
      const { healthy } = this.#body
      const { image } = this.desired.spec
      const made = await keepVm({ driver, volumes, recordFile: this.#recordFile, onQuiesced }, runningVm, desired, dir)
      return { ...made, image, healthy }
    })
    this.#poke()
    return taken
  }

  /**
   * Between two steps, does something while the guest stands still and has written what it had of the volume.
   * @returns for how long it stood still, ms
   * @throws StepError `vm_not_running`
   */
  async still(volumeId: string, act: () => Promise<void>): Promise<number> {
    const done = this.#jobs.add(runningVm => {
      const { record } = this.#recordFile
      const disk = (record.disks ?? []).find(one => one.volumeId === volumeId)
      return disk ? quiesce(runningVm, disk, record.paused, act) : Promise.reject(notRunning())
    })
    this.#poke()
    return done
  }

  /**
   * Between two steps: the volume's file has become that large, and the guest makes use of it.
   * @throws StepError `vm_not_running`, `vm_paused`
   */
  async grow(volumeId: string, sizeMib: number): Promise<void> {
    const done = this.#jobs.add(async runningVm => {
      const { record } = this.#recordFile
      const disk = (record.disks ?? []).find(one => one.volumeId === volumeId)
      // One that only reads has nothing to write its file system's new size with.
      if (!disk || disk.readOnly) return
      if (record.paused) throw new StepError('vm_paused', 'the VM that has the volume is paused: resume it first')
      await runningVm.growDisk?.(disk, sizeMib)
    })
    this.#poke()
    return done
  }

  /** The caller has checked the generation and stored the wish. */
  put(desired: VmPut): void {
    const before = this.#desired
    this.#desired = desired
    if (desired.generation > before.generation) {
      this.#retry.reset()
      if (this.#recordFile.record.crash) this.#recordFile.note({ recentRestarts: 0 })
    }
    const step = this.#step
    const other = desired.spec.outgoing?.migrationId !== before.spec.outgoing?.migrationId
    if (step && (decide(this.#facts()) !== step.action || bootKey(desired.spec) !== step.key || other))
      step.abort.abort(superseded)
    if (desired.spec.healthCheckPath !== before.spec.healthCheckPath) this.#body.healthPathChanged()
    this.#poke()
  }

  /** Looks for the VM that an earlier agent left running, then begins to follow the wish. */
  async start(): Promise<void> {
    const { running } = this.#recordFile.record
    if (running) {
      const fromSeq = await this.#deps.vmLog.lastSeq(running.boot)
      const watcher = this.#body.watcher(running.boot)
      const home = { vmId: this.#desired.vmId, dir: this.#deps.dir, spec: this.#desired.spec }
      const runningVm = await this.#deps.driver.adopt(home, running, fromSeq, watcher)
      if (runningVm) await this.#steps.adopted(runningVm)
      else await this.#steps.lost()
    }
    this.#loop = this.#run()
  }

  /** Ends the loop. The VM lives on, unless `stopVm`. What has no process and shall be absent goes even now. */
  async stop(stopVm: boolean): Promise<void> {
    this.#end.abort(superseded)
    this.#step?.abort.abort(superseded)
    this.#poke()
    await this.#loop
    const { runningVm } = this.#body
    this.#body.drop()
    if (stopVm && runningVm) {
      await runningVm.stop(this.#deps.stopGraceMs)
      await this.#steps.lost()
    } else runningVm?.detach()
    if (this.#stage !== 'absent' && (stopVm || !runningVm)) await this.#steps.leaveHost(stopVm)
    await this.#deps.vmLog.flush()
  }

  async #run(): Promise<void> {
    while (!this.#end.signal.aborted && this.#stage !== 'absent') {
      const wake = this.#wake.promise
      const action = decide(this.#facts())
      if (this.#jobs.any && canWait(action)) await this.#jobs.runNext(this.#body.runningVm)
      else if (action === 'rest') await wake
      else await this.#try(action, wake).catch((error: unknown) => this.#broken(error))
    }
    this.#jobs.close()
  }

  async #try(action: VmAction, wake: Promise<void>): Promise<void> {
    const abort = new AbortController()
    this.#step = { action, key: bootKey(this.#desired.spec), abort }
    try {
      await this.#steps.perform(action, abort.signal)
      this.#retry.reset()
    } catch (error) {
      if (!abort.signal.aborted) await this.#failed(action, error, wake)
    } finally {
      this.#step = undefined
      if (this.#stage !== 'absent') this.#stage = null
      if (!this.#end.signal.aborted) this.#publishObserved()
    }
  }

  async #afterwards(stored: Promise<void>): Promise<void> {
    try {
      await stored
    } catch (error) {
      await this.#broken(error)
    }
    this.#poke()
  }

  /** Not even the failure could be stored (the disk is full, say): the loop must go on, but not in a spin. */
  async #broken(err: unknown): Promise<void> {
    this.#deps.log.error({ vmId: this.#desired.vmId, err }, 'cannot follow the VM')
    if (!this.#end.signal.aborted) await sleep(1_000)
  }

  /** Final faults crash the VM; everything else is tried again, later and later. */
  async #failed(action: VmAction, error: unknown, wake: Promise<void>): Promise<void> {
    const { code, message, final, isNew } = this.#retry.failed(error)
    const { attempt } = this.#retry
    this.#deps.log.warn({ vmId: this.#desired.vmId, action, attempt, err: error }, 'step failed')
    // A crash says its reason itself; a reason that stays the same is said once.
    if (isNew && !final) this.#deps.vmLog.say(`${message}; it will be tried again`)
    if (final) {
      this.#retry.reset()
      return this.#steps.crash(code, message)
    }
    this.#stage = null
    this.#publishObserved()
    const timer = new AbortController()
    const pause = sleep(this.#retry.pauseMs(Math.random()), undefined, { signal: timer.signal })
    await Promise.race([pause.catch(() => undefined), wake])
    timer.abort()
  }

  #facts(): VmFacts {
    const { want, spec } = this.#desired
    const { record } = this.#recordFile
    const { runningVm, workload } = this.#body
    return {
      want,
      workload,
      runningVm: runningVm === undefined ? 'none' : record.paused ? 'paused' : 'running',
      current: bootKey(spec) === record.bootKey,
      crashed: isCrashed(this.#desired, record),
      restartsLeft: this.#recordFile.restartsLeft(spec.maxRestarts),
      migration: migrationFact(spec, record),
      adjusted: this.#adjuster.isDone(spec),
      kept: this.#steps.isKept(),
      cleared: this.#steps.cleared,
    }
  }

  #enter(stage: Stage): void {
    this.#stage = stage
    this.#publishObserved()
  }

  #publishObserved(): void {
    this.#deps.onObserved(this.observed())
  }

  #poke(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }
}

const superseded = new Error('a newer wish replaced this step')

const unsupported = (driver: string) => new StepError('unsupported_by_hypervisor', `${driver} cannot do that`)
