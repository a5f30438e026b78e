import { Value } from 'typebox/value'
import { unhealthyMark, type VmSpec, VmStats } from '../../contract/agent.ts'
import type { RunningVm, Watcher } from '../hypervisor/driver.ts'
import type { ActorDeps } from './deps.ts'
import type { ProbePath } from './health.ts'
import { HealthWatch } from './health-watch.ts'
import type { VmRecordFile } from './record-file.ts'
import { probeOf } from './probe.ts'
import { cpuMeter } from './stats.ts'
import { VmSessions } from './sessions.ts'
import { timedStep } from './step-context.ts'
import { unhealthyReason } from './unhealthy-reason.ts'

/** A VM without a health check is healthy once its program has run for this time. */
const stayUpMs = 2_000

/**
 * Time after a start until the log explains why an app is not healthy. Most apps are healthy by then, and deployments
 * fail later.
 */
const explainAfterMs = 10_000

export interface VmProcessDeps extends Pick<ActorDeps, 'driver' | 'guard' | 'health' | 'vmLog' | 'log'> {
  readonly vmId: string
  readonly recordFile: VmRecordFile
  readonly spec: () => VmSpec
  /** Called when the observed state has changed. */
  readonly onChange: () => void
  /** Called when facts about the VM have changed, so that its actor decides again. */
  readonly onFact: () => void
  /** Called with a reason when the VM is broken and can only be killed. */
  readonly onBroken: (reason: string) => void
  readonly onGone: () => void
}

/** The running process of one VM: its workload, health and resource usage. */
export class VmProcess {
  readonly #deps: VmProcessDeps
  readonly #health: HealthWatch
  #runningVm: RunningVm | undefined
  #sessions: VmSessions | undefined
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

  /** The sessions of the running VM; undefined if the driver does not support sessions. */
  get sessions(): VmSessions | undefined {
    return this.#sessions
  }

  get workload(): 'running' | 'exited' {
    return this.#workload
  }

  get healthy(): boolean {
    return this.#health.healthy
  }

  /** Marks the workload as running before it is started, because a short workload can exit before the start returns. */
  expect(): void {
    this.#workload = 'running'
  }

  take(runningVm: RunningVm): void {
    this.#runningVm = runningVm
    this.#endSessions()
    if (runningVm.sessions) this.#sessions = new VmSessions(runningVm.sessions)
    if (runningVm.workload.state === 'exited') this.#exited(runningVm.workload.code)
  }

  /** Stops the health check. Called before the VM is stopped. */
  quiet(): void {
    this.#health.stop()
  }

  drop(): void {
    this.#runningVm = undefined
    this.#endSessions()
    this.#health.stop()
  }

  /** Reads the statistics of the process; undefined if no process runs. */
  async stats(nowMs: number): Promise<VmStats | undefined> {
    const read = await this.#runningVm?.stats()
    const stats = read && this.#meter(read, nowMs)
    // A single invalid number would make the whole heartbeat of the host invalid.
    return Value.Check(VmStats, stats) ? stats : undefined
  }

  /**
   * Records the start of the workload, and starts the health check.
   * @param wasHealthy true if the VM was restored from a snapshot in which the app was healthy
   */
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
    if (spec().unprobed) return this.#health.start(async () => this.#hasStayedUp())
    const probe = probeOf(driver, runningVm, path, spec())
    // A restored app was healthy, so the first probe only checks its network. An HTTP response would take 50 ms longer.
    const first = wasHealthy ? probeOf(driver, runningVm, path, { ...spec(), healthCheckPath: null }) : probe
    this.#health.start(probe, first)
    if (!wasHealthy && !runningVm.probe && driver.network !== 'user') this.#explainLater(runningVm, path)
  }

  /**
   * Logs why an app is still not healthy after some time. Not called with user networking, where every connect
   * succeeds.
   */
  #explainLater(runningVm: RunningVm, path: ProbePath): void {
    const isStarting = () => this.#runningVm === runningVm && this.#workload === 'running' && this.#health.active
    setTimeout(() => {
      if (!isStarting() || this.#health.healthy) return
      const { vmLog, spec } = this.#deps
      void unhealthyReason(path, spec().healthCheckPath, AbortSignal.timeout(explainAfterMs)).then(reason => {
        if (isStarting() && !this.#health.healthy) vmLog.say(`${unhealthyMark}${reason}`)
      })
    }, explainAfterMs).unref()
  }

  #hasStayedUp(): boolean {
    const { startedAtMs } = this.#deps.recordFile.record
    return startedAtMs !== null && Date.now() - startedAtMs >= stayUpMs
  }

  /** Restarts the health check with a changed path. */
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
        this.#endSessions()
        recordFile.note({ running: null, paused: false })
        vmLog.say(`the VM ended unexpectedly: ${detail || 'its console is silent'}`)
        this.unhealthy()
        onGone()
      },
    }
  }

  #endSessions(): void {
    this.#sessions?.close()
    this.#sessions = undefined
  }

  #exited(code: number): void {
    if (this.#workload === 'exited') return
    this.#workload = 'exited'
    this.#deps.recordFile.note({ exitCode: code })
    this.#deps.vmLog.say(`the program exited with code ${code}`)
    this.unhealthy()
  }

  #healthChanged(healthy: boolean, ms: number): void {
    const { recordFile, onChange, log, vmLog } = this.#deps
    vmLog.say(healthy ? 'healthy' : 'not healthy any more')
    const { steps } = recordFile.record
    const known = steps.some(step => step.name === 'healthy')
    if (healthy && !known) {
      recordFile.note({ steps: [...steps, timedStep('healthy', ms)] })
      recordFile.save().catch((err: unknown) => log.error({ err }, 'cannot store the VM'))
    }
    onChange()
  }
}
