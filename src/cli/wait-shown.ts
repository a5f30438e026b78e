/** Waits for work of the cloud while the terminal shows what is waited for, and for how long. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Call } from './verb.ts'

const pollMs = 500

export interface Shown {
  readonly what: string
  /** Of waits that usually take more than five seconds. */
  readonly usualMs?: number | undefined
  readonly everyMs?: number
}

/**
 * @param look asked until it finds something; `report` takes the share that is done, 0 to 1
 * @throws whatever `look` throws; the signal's reason if it aborts, while the work continues
 */
export const waitShown = <T>(
  { terminal, signal }: Pick<Call, 'terminal' | 'signal'>,
  { what, usualMs, everyMs = pollMs }: Shown,
  look: (report: (share: number) => void) => Promise<T | undefined>,
): Promise<T> =>
  terminal.step(
    what,
    async report => {
      for (;;) {
        signal.throwIfAborted()
        const found = await look(report)
        if (found !== undefined) return found
        await sleep(everyMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    },
    usualMs,
  )
