import type { VmObserved } from '../../contract/agent.ts'
import { backoffMs } from '../../lib/backoff.ts'
import { bootAttempts, isFinal, StepError } from '../base/step-error.ts'

/** The failures of one VM's current endeavour. */
export class Retry {
  #attempt = 0
  #bootFailures = 0
  #fault: VmObserved['error'] = null

  /** The fault that is being retried. */
  get fault(): VmObserved['error'] {
    return this.#fault
  }

  get attempt(): number {
    return this.#attempt
  }

  /** A step succeeded, or a new wish began. */
  reset(): void {
    this.#attempt = 0
    this.#bootFailures = 0
    this.#fault = null
  }

  /** @returns what failed, whether it is worth another try, and whether the last try failed in another way. */
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
