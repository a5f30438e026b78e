import { type HealthTiming, type Probe, watchHealth } from './health.ts'

/** The running health check of one VM, and its last result. */
export class HealthWatch {
  readonly #timing: HealthTiming
  readonly #onChange: (healthy: boolean, afterMs: number) => void
  #watch: AbortController | undefined
  #healthy = false

  /** @param onChange called with the new result and the time since the start of the check */
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
   * Starts the check with this probe. The last result remains until the probe returns another one.
   * @param first probe to use until it has passed once
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

  /** Stops the check. The VM then counts as not healthy. */
  stop(): void {
    this.#watch?.abort()
    this.#watch = undefined
    this.#healthy = false
  }
}
