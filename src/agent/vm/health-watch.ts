import { type HealthTiming, type Probe, watchHealth } from './health.ts'

/** The running health check of one VM, and its last result. */
export class HealthWatch {
  readonly #timing: HealthTiming
  readonly #onChange: (healthy: boolean, afterMs: number) => void
  #watch: AbortController | undefined
  #healthy = false

  /** @param onChange called with each new result and the time since the check was started */
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
   * Starts to probe the app. The previous result remains valid until the first probe ends.
   * @param first used instead of `probe` until it has passed once
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

  /** Stops the health check. From then on, the VM counts as not healthy. */
  stop(): void {
    this.#watch?.abort()
    this.#watch = undefined
    this.#healthy = false
  }
}
