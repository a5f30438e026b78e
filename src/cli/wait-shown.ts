/**
 * Waits until Mote has finished something, such as a move; the terminal shows the name and the duration of the wait.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Call } from './verb.ts'

const pollMs = 500

export interface Shown {
  readonly what: string
  /** Usual duration in milliseconds, given for waits of more than five seconds. */
  readonly usualMs?: number | undefined
  readonly everyMs?: number
}

/**
 * @param look polled until it returns a value; `report` takes the completed share, 0 to 1
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
