import { setTimeout as sleep } from 'node:timers/promises'
import type { VmObserved, VmPut, VmStats, VmStep } from '../../contract/agent.ts'
import { abortable } from '../../lib/abortable.ts'
import type { Machine, VmHome, Watcher } from '../hypervisor/driver.ts'
import { decide, type VmAction } from './decide.ts'
import type { ActorDeps } from './deps.ts'
import { StepError } from './errors.ts'
import { HealthWatch } from './health-watch.ts'
import { isCrashed, observe, type Stage } from './observe.ts'
import { probeOf } from './probe.ts'
import { bootKey, type VmRecord } from './record.ts'
import { recentRestarts, restartPauseMs } from './restarts.ts'
import { Retry } from './retry.ts'
import { stepContext, timedStep } from './step-context.ts'
import { cpuMeter } from './stats.ts'

const absentGraceMs = 2_000

/** One VM on this host. It follows its wish level-triggered, one step at a time, until it is absent. */
export class VmActor {
  readonly #deps: ActorDeps
  readonly #end = new AbortController()
  #wish: VmPut
  #record: VmRecord
  #machine: Machine | undefined
  #workload: 'running' | 'exited' = 'running'
  #stage: Stage = null
  readonly #retry = new Retry()
  #step: { readonly action: VmAction; readonly key: string; readonly abort: AbortController } | undefined
  readonly #health: HealthWatch
  #wake = Promise.withResolvers<void>()
  #loop: Promise<void> = Promise.resolve()
  #meter: ReturnType<typeof cpuMeter>

  constructor(deps: ActorDeps, wish: VmPut, record: VmRecord) {
    this.#deps = deps
    this.#wish = wish
    this.#record = record
    this.#meter = cpuMeter(wish.vmId, wish.spec.vcpus)
    this.#health = new HealthWatch(deps.health, (healthy, ms) => this.#healthChanged(healthy, ms))
  }

  get wish(): VmPut {
    return this.#wish
  }

  observed(): VmObserved {
    return observe({
      ...{
        wish: this.#wish,
        record: this.#record,
        stage: this.#stage,
        healthy: this.#health.healthy,
        fault: this.#retry.fault,
      },
    })
  }

  /** Undefined while there is no process. */
  async stats(nowMs: number): Promise<VmStats | undefined> {
    const stats = await this.#machine?.stats()
    return stats && this.#meter(stats, nowMs)
  }

  /** The caller has checked the generation and stored the wish. */
  put(wish: VmPut): void {
    const before = this.#wish
    this.#wish = wish
    if (wish.generation > before.generation) {
      this.#retry.reset()
      if (this.#record.crash) this.#record = { ...this.#record, recentRestarts: 0 }
    }
    const step = this.#step
    if (step && (decide(this.#facts()) !== step.action || bootKey(wish.spec) !== step.key)) step.abort.abort(superseded)
    if (wish.spec.healthCheckPath !== before.spec.healthCheckPath && this.#health.active) this.#watchHealth()
    this.#poke()
  }

  /** Looks for the VM that an earlier agent left running, then begins to follow the wish. */
  async start(): Promise<void> {
    const { running } = this.#record
    if (running) {
      const fromSeq = await this.#deps.vmLog.lastSeq(running.boot)
      const machine = await this.#deps.driver.adopt(this.#home(), running, fromSeq, this.#watcher(running.boot))
      if (machine) await this.#adopted(machine)
      else await this.#save({ running: null, paused: false })
    }
    this.#loop = this.#run()
  }

  /** Ends the loop. The VM lives on, unless `stopVm`. */
  async stop(stopVm: boolean): Promise<void> {
    this.#end.abort(superseded)
    this.#step?.abort.abort(superseded)
    this.#poke()
    await this.#loop
    this.#health.stop()
    if (stopVm && this.#machine) {
      await this.#machine.stop(this.#deps.stopGraceMs)
      await this.#save({ running: null, paused: false })
    } else this.#machine?.detach()
    await this.#deps.vmLog.flush()
  }

  async #run(): Promise<void> {
    while (!this.#end.signal.aborted) {
      const wake = this.#wake.promise
      const action = decide(this.#facts())
      if (action === 'rest') await wake
      else await this.#try(action, wake).catch((error: unknown) => this.#broken(error))
      if (this.#stage === 'absent') return
    }
  }

  async #try(action: VmAction, wake: Promise<void>): Promise<void> {
    const abort = new AbortController()
    this.#step = { action, key: bootKey(this.#wish.spec), abort }
    try {
      await this.#perform(action, abort.signal)
      this.#retry.reset()
    } catch (error) {
      if (!abort.signal.aborted) await this.#failed(action, error, wake)
    } finally {
      this.#step = undefined
      if (this.#stage !== 'absent') this.#stage = null
      if (!this.#end.signal.aborted) this.#seen()
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
    this.#deps.log.error({ vmId: this.#wish.vmId, err }, 'cannot follow the VM')
    if (!this.#end.signal.aborted) await sleep(1_000)
  }

  /** Final faults crash the VM; everything else is tried again, later and later. */
  async #failed(action: VmAction, error: unknown, wake: Promise<void>): Promise<void> {
    const { code, message, final } = this.#retry.failed(error)
    const { attempt } = this.#retry
    this.#deps.log.warn({ vmId: this.#wish.vmId, action, attempt, err: error }, 'step failed')
    this.#deps.vmLog.say(`${message} (try ${attempt})`)
    if (final) return this.#crash(code, message)
    this.#stage = null
    this.#seen()
    const timer = new AbortController()
    const pause = sleep(this.#retry.pauseMs(Math.random()), undefined, { signal: timer.signal })
    await Promise.race([pause.catch(() => undefined), wake])
    timer.abort()
  }

  async #perform(action: VmAction, signal: AbortSignal): Promise<void> {
    const { driver } = this.#deps
    const machine = this.#machine
    if (action === 'boot') return this.#boot(signal)
    if (action === 'stop') return this.#stopMachine()
    if (action === 'release') return this.#release()
    if (action === 'crash') return this.#crash('exited', `the workload ended with code ${this.#record.exitCode}`)
    if (machine === undefined) return
    if (action === 'restart') return this.#restart(machine, signal)
    if (action !== 'pause' && action !== 'resume') return
    if (!driver.capabilities.pause) throw new StepError('unsupported_by_hypervisor', `${driver.name} cannot pause`)
    await (action === 'pause' ? machine.pause() : machine.resume())
    await this.#save({ paused: action === 'pause' })
    if (action === 'resume') this.#watchHealth()
    else this.#unhealthy()
  }

  async #boot(signal: AbortSignal): Promise<void> {
    const { driver, bootSlots } = this.#deps
    const key = bootKey(this.#wish.spec)
    const boot = this.#record.boot + 1
    this.#enter('preparing')
    await this.#restartPause(signal)
    await abortable(this.#deps.ready, signal)
    await this.#save({ boot, steps: [], crash: null, exitCode: null })
    const context = stepContext(this.#deps.vmLog.say, step => this.#addStep(step), signal)
    const prepared = await driver.prepare(this.#home(), context)
    const release = await bootSlots.take(signal)
    try {
      this.#enter('booting')
      this.#workload = 'running' // before it can end: a short one ends before the boot has returned
      const machine = await driver
        .boot(this.#home(), prepared, boot, this.#watcher(boot), context)
        .catch((error: unknown) => Promise.reject(StepError.wrap('boot_failed', error)))
      this.#machine = machine
      if (machine.workload.state === 'exited') this.#exited(machine.workload.code)
      await this.#save({ running: machine.running, bootKey: key, imageDigest: prepared.imageDigest, paused: false })
      await this.#workloadStarted()
    } finally {
      release()
    }
  }

  async #adopted(machine: Machine): Promise<void> {
    this.#machine = machine
    const { workload } = machine
    this.#workload = workload.state
    const paused = (await machine.inspect()) === 'paused'
    await this.#save({ paused, ...(workload.state === 'exited' ? { exitCode: workload.code } : {}) })
    this.#deps.log.info({ vmId: this.#wish.vmId, pid: machine.running.process.pid }, 'VM adopted')
    if (!paused && workload.state === 'running') this.#watchHealth()
  }

  async #workloadStarted(): Promise<void> {
    const again = this.#record.startedAtMs !== null
    await this.#save({ startedAtMs: Date.now(), restartCount: this.#record.restartCount + (again ? 1 : 0) })
    this.#meter = cpuMeter(this.#wish.vmId, this.#wish.spec.vcpus)
    if (this.#workload === 'running') this.#watchHealth()
  }

  async #restart(machine: Machine, signal: AbortSignal): Promise<void> {
    await this.#countRestart()
    await this.#restartPause(signal)
    this.#workload = 'running'
    await machine.startWorkload()
    await this.#workloadStarted()
  }

  async #stopMachine(): Promise<void> {
    this.#enter('stopping')
    this.#health.stop()
    await this.#machine?.stop(this.#wish.want === 'absent' ? absentGraceMs : this.#deps.stopGraceMs)
    this.#machine = undefined
    await this.#save({ running: null, paused: false })
  }

  async #release(): Promise<void> {
    this.#enter('stopping')
    await this.#deps.driver.release(this.#wish.vmId, this.#deps.dir)
    await this.#deps.vmLog.flush()
    await this.#deps.bury(this.#wish.generation)
    this.#record = { ...this.#record, running: null, crash: null }
    this.#stage = 'absent'
  }

  async #crash(code: string, message: string): Promise<void> {
    this.#retry.reset()
    this.#deps.vmLog.say(`crashed: ${message}`)
    await this.#save({ crash: { generation: this.#wish.generation, code, message } })
  }

  #watcher(boot: number): Watcher {
    return {
      onFrames: frames => this.#deps.vmLog.frames(boot, frames, seq => this.#machine?.ack(seq)),
      onExit: code => this.#exited(code),
      onGone: detail => {
        this.#machine = undefined
        this.#record = { ...this.#record, running: null, paused: false }
        this.#deps.vmLog.say(`the VM ended unexpectedly: ${detail || 'its console is silent'}`)
        this.#unhealthy()
        const counted = this.#restartsLeft()
          ? this.#countRestart()
          : this.#crash('vm_died', 'the VM ended unexpectedly, more often than it may')
        void this.#afterwards(counted)
      },
    }
  }

  #exited(code: number): void {
    if (this.#workload === 'exited') return
    this.#workload = 'exited'
    this.#record = { ...this.#record, exitCode: code }
    this.#deps.vmLog.say(`the workload ended with code ${code}`)
    this.#unhealthy()
  }

  #unhealthy(): void {
    this.#health.stop()
    this.#seen()
    this.#poke()
  }

  #watchHealth(): void {
    const machine = this.#machine
    if (machine === undefined || this.#record.paused) return
    this.#health.start(probeOf(this.#deps.driver, machine, machine.running.prepared.endpoint, this.#wish.spec))
  }

  #healthChanged(healthy: boolean, ms: number): void {
    const known = this.#record.steps.some(step => step.name === 'healthy')
    if (!healthy || known) return this.#seen()
    this.#addStep(timedStep('healthy', ms))
    this.#save({}).catch((err: unknown) => this.#deps.log.error({ err }, 'cannot store the VM'))
  }

  #addStep(step: VmStep): void {
    this.#record = { ...this.#record, steps: [...this.#record.steps, step] }
    this.#seen()
  }

  #facts() {
    const { want, spec } = this.#wish
    const machine = this.#machine === undefined ? 'none' : this.#record.paused ? 'paused' : 'running'
    return {
      ...({ want, machine, workload: this.#workload } as const),
      current: bootKey(spec) === this.#record.bootKey,
      crashed: isCrashed(this.#wish, this.#record),
      restartsLeft: this.#restartsLeft(),
    } as const
  }

  #restartsLeft(): boolean {
    return recentRestarts(this.#record, Date.now()) < this.#wish.spec.maxRestarts
  }

  async #countRestart(): Promise<void> {
    await this.#save({ recentRestarts: recentRestarts(this.#record, Date.now()) + 1 })
  }

  async #restartPause(signal: AbortSignal): Promise<void> {
    const ms = restartPauseMs(this.#record, Math.random())
    if (ms > 0) await sleep(ms, undefined, { signal })
  }

  #home(): VmHome {
    return { vmId: this.#wish.vmId, dir: this.#deps.dir, spec: this.#wish.spec }
  }

  #enter(stage: Stage): void {
    this.#stage = stage
    this.#seen()
  }

  #seen(): void {
    this.#deps.onSeen(this.observed())
  }

  #poke(): void {
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }

  async #save(change: Partial<VmRecord>): Promise<void> {
    this.#record = { ...this.#record, ...change }
    await this.#deps.saveRecord(this.#record)
  }
}

const superseded = new Error('a newer wish replaced this step')
