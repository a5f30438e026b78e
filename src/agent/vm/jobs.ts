import type { RunningVm } from '../hypervisor/driver.ts'
import { StepError } from '../base/step-error.ts'

interface Job {
  readonly act: (runningVm: RunningVm) => Promise<void>
  readonly refuse: (error: Error) => void
}

/**
 * A queue of operations on one running VM. The VM's actor runs them one at a time, between the steps of its
 * reconciliation.
 */
export class Jobs {
  #waiting: Job[] = []
  #closed = false

  get any(): boolean {
    return this.#waiting.length > 0
  }

  /**
   * Queues an operation.
   * @throws StepError `vm_not_running` if the VM does not run when its turn comes, or the error of `act`
   */
  add<T>(act: (runningVm: RunningVm) => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    if (this.#closed) reject(notRunning())
    else this.#waiting.push({ act: runningVm => act(runningVm).then(resolve, reject), refuse: reject })
    return promise
  }

  async runNext(runningVm: RunningVm | undefined): Promise<void> {
    const job = this.#waiting.shift()
    if (runningVm) await job?.act(runningVm)
    else job?.refuse(notRunning())
  }

  /** Rejects all queued and later operations with `vm_not_running`. */
  close(): void {
    this.#closed = true
    for (const job of this.#waiting.splice(0)) job.refuse(notRunning())
  }
}

export function notRunning(): StepError {
  return new StepError('vm_not_running', 'the VM is not running')
}
