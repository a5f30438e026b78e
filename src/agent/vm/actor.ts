/** The life cycle of VMs on a host: one actor per VM reconciles it with its desired state. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SnapshotPut, VmExec, VmExecAnswer, VmObserved, VmPut, VmStats } from '../../contract/agent.ts'
import type { SessionAnswer, SessionRequest } from '../../contract/agent/session.ts'
import type { SessionInput } from '../../contract/agent/session-bytes.ts'
import type { SnapshotMade } from '../hypervisor/driver.ts'
import { Adjuster } from './adjust.ts'
import { VmProcess } from './vm-process.ts'
import { canWait, decide, type VmAction, type VmFacts } from './decide.ts'
import type { ActorDeps } from './deps.ts'
import { factsOf } from './facts.ts'
import { execIn, growJob, quiesceJob, sessionIn, snapshotJob, superseded, unsupported } from './vm-jobs.ts'
import { Jobs } from './jobs.ts'
import { VmRecordFile } from './record-file.ts'
import { observe, type Stage } from './observe.ts'
import { bootKey, type VmRecord } from './record.ts'
import { Retry } from './retry.ts'
import { Steps } from './steps.ts'

/** Reconciles one VM with its desired state: level-triggered, one step at a time, until the VM is absent. */
export class VmActor {
  readonly #deps: ActorDeps
  readonly #end = new AbortController()
  readonly #retry = new Retry()
  readonly #jobs = new Jobs()
  readonly #recordFile: VmRecordFile
  readonly #vmProcess: VmProcess
  readonly #adjuster: Adjuster
  readonly #steps: Steps
  #desired: VmPut
  #stage: Stage = null
  #step: { readonly action: VmAction; readonly key: string; readonly abort: AbortController } | undefined
  #wake = Promise.withResolvers<void>()
  #loop: Promise<void> = Promise.resolve()

  constructor(deps: ActorDeps, desired: VmPut, record: VmRecord) {
    const onChange = () => this.#publishObserved()
    const recordFile = new VmRecordFile(record, deps.saveRecord)
    this.#deps = deps
    this.#desired = desired
    this.#recordFile = recordFile
    this.#adjuster = new Adjuster({
      ...deps,
      recordFile,
      onChange,
      vmId: desired.vmId,
      onError: err => deps.log.error({ err }, 'cannot close a volume'),
    })
    this.#vmProcess = new VmProcess({
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
      vmProcess: this.#vmProcess,
      adjuster: this.#adjuster,
      onChange,
      ending: this.#end.signal,
      desired: () => this.#desired,
      nextChange: () => this.#wake.promise,
      onStage: stage => {
        this.#stage = stage
        this.#publishObserved()
      },
      onStep: step => {
        recordFile.note({ steps: [...recordFile.record.steps, step] })
        this.#publishObserved()
      },
    })
  }

  get desired(): VmPut {
    return this.#desired
  }

  /** The snapshot that the VM's process maps or that the VM will start from. */
  get snapshotId(): string | undefined {
    return this.#desired.spec.from?.snapshotId
  }

  observed(): VmObserved {
    const observed = observe({
      desired: this.#desired,
      record: this.#recordFile.record,
      stage: this.#stage,
      healthy: this.#vmProcess.healthy,
      fault: this.#retry.fault,
      disks: this.#adjuster.observed(),
      firewall: this.#deps.guard.guarded(this.#desired.vmId),
    })
    // `atUs` never decreases while the agent runs, even if the clock is set back.
    return { ...observed, atUs: Math.round((performance.timeOrigin + performance.now()) * 1000) }
  }

  /** Makes the actor decide again, because a fact other than the desired state has changed. */
  poke(): void {
    this.#poke()
  }

  /** Publishes the observed state of the VM. */
  report(): void {
    this.#publishObserved()
  }

  stats(nowMs: number): Promise<VmStats | undefined> {
    return this.#vmProcess.stats(nowMs)
  }

  /** Runs a program in the VM. @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `exec_failed` */
  async exec(request: VmExec): Promise<VmExecAnswer> {
    return execIn(this.#vmProcess.runningVm, this.#recordFile, this.#deps.driver, request)
  }

  /** Serves a request about a session. @throws StepError with the same codes as `exec` */
  async session(request: SessionRequest | SessionInput): Promise<SessionAnswer | Uint8Array> {
    return sessionIn(this.#vmProcess, this.#recordFile, this.#deps.driver, request)
  }

  /** Checks that the VM's hypervisor supports snapshots. @throws StepError `unsupported_by_hypervisor` */
  checkSnapshot(): void {
    const { driver } = this.#deps
    if (!driver.capabilities.snapshot) throw unsupported(driver)
  }

  /**
   * Takes a snapshot of the VM, between two steps of its reconciliation.
   * @throws StepError `vm_not_running`, `unsupported_by_hypervisor`, `volumes_attached`
   */
  async takeSnapshot(desired: SnapshotPut, dir: string): Promise<SnapshotMade> {
    this.checkSnapshot()
    const { driver, volumes } = this.#deps
    const deps = {
      driver,
      volumes,
      recordFile: this.#recordFile,
      vmProcess: this.#vmProcess,
      spec: () => this.#desired.spec,
    }
    const taken = this.#jobs.add(snapshotJob(deps, desired, dir))
    this.#poke()
    return taken
  }

  /**
   * Runs `act` between two steps of the reconciliation, while the guest has flushed the volume and is paused.
   * @returns how long the guest was paused, in ms
   * @throws StepError `vm_not_running`
   */
  async quiesce(volumeId: string, act: () => Promise<void>): Promise<number> {
    const done = this.#jobs.add(quiesceJob(this.#recordFile, volumeId, act))
    this.#poke()
    return done
  }

  /**
   * Makes the guest use the new size of a volume that has grown, between two steps of the reconciliation.
   * @throws StepError `vm_not_running`, `vm_paused`
   */
  async grow(volumeId: string, sizeMib: number): Promise<void> {
    const done = this.#jobs.add(growJob(this.#recordFile, volumeId, sizeMib))
    this.#poke()
    return done
  }

  /** Sets the desired state. The caller has checked its generation and stored it. */
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
    if (desired.spec.healthCheckPath !== before.spec.healthCheckPath) this.#vmProcess.healthPathChanged()
    this.#poke()
  }

  /** Adopts the VM if its process still runs, and then starts to reconcile. */
  async start(): Promise<void> {
    const { running } = this.#recordFile.record
    if (running) {
      const fromSeq = await this.#deps.vmLog.lastSeq(running.boot)
      const watcher = this.#vmProcess.watcher(running.boot)
      const home = { vmId: this.#desired.vmId, dir: this.#deps.dir, spec: this.#desired.spec }
      const runningVm = await this.#deps.driver.adopt(home, running, fromSeq, watcher)
      if (runningVm) await this.#steps.adopted(runningVm)
      else await this.#steps.lost()
    }
    this.#loop = this.#run()
  }

  /**
   * Ends the reconciliation. The VM keeps running unless `stopVm` is set. A deleted VM whose process has already exited
   * is still released.
   */
  async stop(stopVm: boolean): Promise<void> {
    this.#end.abort(superseded)
    this.#step?.abort.abort(superseded)
    this.#poke()
    await this.#loop
    const { runningVm } = this.#vmProcess
    this.#vmProcess.drop()
    if (stopVm && runningVm) {
      await runningVm.stop(this.#deps.stopGraceMs)
      await this.#steps.lost()
    } else runningVm?.detach()
    if (this.#stage !== 'absent' && (stopVm || !runningVm)) await this.#steps.releaseAtEnd(stopVm)
    await this.#deps.vmLog.flush()
  }

  async #run(): Promise<void> {
    while (!this.#end.signal.aborted && this.#stage !== 'absent') {
      const wake = this.#wake.promise
      const action = decide(this.#facts())
      if (this.#jobs.any && canWait(action)) await this.#jobs.runNext(this.#vmProcess.runningVm)
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

  /** Handles an error that could not be recorded, for example on a full disk. The delay avoids a busy loop. */
  async #broken(err: unknown): Promise<void> {
    this.#deps.log.error({ vmId: this.#desired.vmId, err }, 'cannot reconcile the VM')
    if (!this.#end.signal.aborted) await sleep(1_000)
  }

  /** Handles a failed step: a final fault crashes the VM, any other fault is retried with backoff. */
  async #failed(action: VmAction, error: unknown, wake: Promise<void>): Promise<void> {
    const { code, message, final, isNew } = this.#retry.failed(error)
    const { attempt } = this.#retry
    this.#deps.log.warn({ vmId: this.#desired.vmId, action, attempt, err: error }, 'step failed')
    // Write each distinct reason to the log only once. A crash logs its own reason.
    if (isNew && !final) this.#deps.vmLog.say(`${message}; it will be retried`)
    if (final) {
      this.#retry.reset()
      return this.#steps.crash(code, message)
    }
    this.#stage = null
    this.#publishObserved()
    const timer = new AbortController()
    const pause = sleep(this.#retry.pauseMs(Math.random()), undefined, { signal: timer.signal })
    await Promise.race([pause.catch(() => undefined), wake]).finally(() => timer.abort())
  }

  #facts(): VmFacts {
    return factsOf({
      desired: this.#desired,
      recordFile: this.#recordFile,
      vmProcess: this.#vmProcess,
      adjuster: this.#adjuster,
      steps: this.#steps,
    })
  }

  #publishObserved(): void {
    this.#deps.onObserved(this.observed())
  }

  #poke(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }
}
