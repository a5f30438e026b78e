import { Value } from 'typebox/value'
import { type VmSpec, VmStats } from '../../contract/agent.ts'
import type { RunningVm, Watcher } from '../hypervisor/driver.ts'
import type { ActorDeps } from './deps.ts'
import { HealthWatch } from './health-watch.ts'
import type { VmRecordFile } from './record-file.ts'
import { probeOf } from './probe.ts'
import { cpuMeter } from './stats.ts'
import { timedStep } from './step-context.ts'

export interface VmProcessDeps extends Pick<ActorDeps, 'driver' | 'guard' | 'health' | 'vmLog' | 'log'> {
  readonly vmId: string
  readonly recordFile: VmRecordFile
  readonly spec: () => VmSpec
  /** Something can be seen from outside now that could not before. */
  readonly onChange: () => void
  /** Facts have changed: the actor has to decide anew. */
  readonly onFact: () => void
  /** It can only be ended, for this reason. */
  readonly onBroken: (reason: string) => void
  readonly onGone: () => void
}

/** The process of one VM while there is one: its workload, its health, what it uses. */
export class VmProcess {
  readonly #deps: VmProcessDeps
  readonly #health: HealthWatch
  #runningVm: RunningVm | undefined
  #workload: 'running' | 'exited' = 'running'
  #meter: ReturnType<typeof cpuMeter>

  constructor(deps: VmProcessDeps) {
    this.#deps = deps
    this.#meter = cpuMeter(deps.vmId, deps.spec().vcpus)
    this.#health = new HealthWatch(deps.health, (healthy, ms) => this.#healthChanged(healthy, ms))
  }

  get runningVm(): RunningVm | undefined {
    return this.#runningVm
  }

  get workload(): 'running' | 'exited' {
    return this.#workload
  }

  get healthy(): boolean {
    return this.#health.healthy
  }

  /** A workload is about to start; a short one ends before the start has returned. */
  expect(): void {
    this.#workload = 'running'
  }

  take(runningVm: RunningVm): void {
    this.#runningVm = runningVm
    if (runningVm.workload.state === 'exited') this.#exited(runningVm.workload.code)
  }

  /** It is about to end: nobody asks how it is. */
  quiet(): void {
    this.#health.stop()
  }

  drop(): void {
    this.#runningVm = undefined
    this.#health.stop()
  }

  /** Undefined while there is no process. */
  async stats(nowMs: number): Promise<VmStats | undefined> {
    const read = await this.#runningVm?.stats()
    const stats = read && this.#meter(read, nowMs)
    // A number that is none would cost the host its whole beat.
    return Value.Check(VmStats, stats) ? stats : undefined
  }

  /** @param wasHealthy the app goes on, and was well when it was stopped */
  async started(wasHealthy = false): Promise<void> {
    const { recordFile, vmId, spec } = this.#deps
    const { startedAtMs, restartCount } = recordFile.record
    await recordFile.save({ startedAtMs: Date.now(), restartCount: restartCount + (startedAtMs === null ? 0 : 1) })
    this.#meter = cpuMeter(vmId, spec().vcpus)
    if (this.#workload === 'running') this.watchHealth(wasHealthy)
  }

  watchHealth(wasHealthy = false): void {
    const { driver, guard, recordFile, spec } = this.#deps
    const runningVm = this.#runningVm
    if (runningVm === undefined || recordFile.record.paused) return
    const path = { to: runningVm.running.prepared.endpoint, from: guard.probeFrom }
    const probe = probeOf(driver, runningVm, path, spec())
    // Its program goes on where it answered: what may be missing is its network, and a whole answer costs it 50 ms more.
    const first = wasHealthy ? probeOf(driver, runningVm, path, { ...spec(), healthCheckPath: null }) : probe
    this.#health.start(probe, first)
  }

  /** The path that is asked for has changed. */
  healthPathChanged(): void {
    if (this.#health.active) this.watchHealth()
  }

  unhealthy(): void {
    this.#health.stop()
    this.#deps.onChange()
    this.#deps.onFact()
  }

  watcher(boot: number): Watcher {
    const { vmLog, recordFile, onGone } = this.#deps
    return {
      onFrames: frames => vmLog.frames(boot, frames, seq => this.#runningVm?.ack(seq)),
      onExit: code => this.#exited(code),
      onBroken: fault => this.#deps.onBroken(fault.message),
      onGone: detail => {
        this.#runningVm = undefined
        recordFile.note({ running: null, paused: false })
        vmLog.say(`the VM ended unexpectedly: ${detail || 'its console is silent'}`)
        this.unhealthy()
        onGone()
      },
    }
  }

  #exited(code: number): void {
    if (this.#workload === 'exited') return
    this.#workload = 'exited'
    this.#deps.recordFile.note({ exitCode: code })
    this.#deps.vmLog.say(`the workload ended with code ${code}`)
    this.unhealthy()
  }

  #healthChanged(healthy: boolean, ms: number): void {
    const { recordFile, onChange, log } = this.#deps
    const { steps } = recordFile.record
    const known = steps.some(step => step.name === 'healthy')
    if (healthy && !known) {
      recordFile.note({ steps: [...steps, timedStep('healthy', ms)] })
      recordFile.save().catch((err: unknown) => log.error({ err }, 'cannot store the VM'))
    }
    onChange()
  }
}
