/** Waits until a VM or a volume has moved to another host. */
import type { Call } from './verb.ts'
import { waitShown } from './wait-shown.ts'

interface Move {
  readonly status: string
  /** Copied share of the data in percent, 0 to 100. */
  readonly percent?: number | undefined
  readonly error?: string | null | undefined
}

/**
 * Polls the move until it is completed.
 * @param subject the volume or VM, as the beginning of a sentence
 * @throws Error with the reason if the move fails or is canceled; the volume or VM then stays on its host
 */
export const untilMoved = <T extends Move>(
  call: Pick<Call, 'terminal' | 'signal'>,
  what: string,
  subject: string,
  look: () => Promise<T>,
): Promise<T> =>
  waitShown(call, { what }, async report => {
    const now = await look()
    if (now.status === 'completed') return now
    if (now.status === 'cancelled') throw new Error(`The move was canceled. ${subject} stays on its host.`)
    if (now.status === 'failed') throw new Error(`${subject} stays on its host: ${now.error ?? 'the move failed'}`)
    if (now.percent) report(now.percent / 100)
    return undefined
  })
