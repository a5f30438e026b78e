import type { VmObserved } from '../../contract/agent.ts'
import { backoffMs } from '../../lib/backoff.ts'
import { bootAttempts, isFinal, StepError } from '../base/step-error.ts'

/** Counts the failed steps of one VM on the way to its desired state. */
export class Retry {
  #attempt = 0
  #bootFailures = 0
  #fault: VmObserved['error'] = null

  /** The fault of the last failed step, which is being retried. */
  get fault(): VmObserved['error'] {
    return this.#fault
  }

  get attempt(): number {
    return this.#attempt
  }

  /** Forgets all failures. Called when a step succeeded or a new desired state arrived. */
  reset(): void {
    this.#attempt = 0
    this.#bootFailures = 0
    this.#fault = null
  }

  /** Counts a failure. @returns the fault, whether it is final, and whether it differs from the previous one */
  failed(error: unknown): { code: string; message: string; final: boolean; isNew: boolean } {
    const { code, message } = StepError.of(error)
    const isNew = this.#fault?.message !== message
    this.#attempt += 1
    if (code === 'boot_failed') this.#bootFailures += 1
    this.#fault = { code, message }
    return { code, message, final: this.#bootFailures >= bootAttempts || isFinal(error), isNew }
  }

  pauseMs(random: number): number {
    return backoffMs(this.#attempt, random, { capMs: 30_000 })
  }
}
