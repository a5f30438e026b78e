import { type HealthTiming, type Probe, watchHealth } from './health.ts'

/** The running health check of one VM, and its last word. */
export class HealthWatch {
  readonly #timing: HealthTiming
  readonly #onChange: (healthy: boolean, afterMs: number) => void
  #watch: AbortController | undefined
  #healthy = false

  /** `afterMs`: time since the check was started. */
  constructor(timing: HealthTiming, onChange: (healthy: boolean, afterMs: number) => void) {
    this.#timing = timing
    this.#onChange = onChange
  }

  get healthy(): boolean {
    return this.#healthy
  }

  get active(): boolean {
    return this.#watch !== undefined
  }

  /**
   * Asks from now on with this probe; what was known stays known until it says otherwise.
   * @param first asked until it has passed once
   */
  start(probe: Probe, first: Probe = probe): void {
    this.#watch?.abort()
    const watch = new AbortController()
    this.#watch = watch
    const startedMs = performance.now()
    const onChange = (healthy: boolean) => {
      this.#healthy = healthy
      this.#onChange(healthy, performance.now() - startedMs)
    }
    let asked = first
    const ask: Probe = async signal => {
      const passed = await asked(signal)
      if (passed) asked = probe
      return passed
    }
    void watchHealth(ask, this.#healthy, this.#timing, onChange, watch.signal)
  }

  /** Nothing is asked any more, and nothing counts as healthy. */
  stop(): void {
    this.#watch?.abort()
    this.#watch = undefined
    this.#healthy = false
  }
}
