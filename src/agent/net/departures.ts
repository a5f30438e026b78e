/**
 * What of the network has no user any more and is still to be taken away. The kernel waits for grace periods of its own
 * (20 to 29 ms for a device, as long for a chain of rules, no CPU time), the same ones for many at once: what gathers
 * while some are going goes next, together (decision 63).
 */
import { createTurns } from '../../lib/turns.ts'

export interface Departures {
  /** It goes soon. Nothing is waited for. */
  begin(name: string): void
  /** Resolves when it is not there any more. @throws what taking it away says; it will be tried again */
  gone(name: string): Promise<void>
  /** Resolves when nothing is under way: what is left then could not be taken away. */
  settled(): Promise<void>
}

interface DeparturesOptions {
  /** Takes all of these away. Idempotent. */
  readonly remove: (names: readonly string[]) => Promise<void>
  readonly onGone: (name: string) => void
  readonly onError: (error: unknown) => void
  readonly retryMs?: number
}

export function createDepartures({ remove, onGone, onError, retryMs = 1_000 }: DeparturesOptions): Departures {
  const leaving = new Set<string>()
  const turns = createTurns()
  let retry: NodeJS.Timeout | undefined

  const removeAll = () =>
    turns.take('all', async () => {
      const names = [...leaving]
      if (names.length === 0) return
      await remove(names)
      for (const name of names) {
        leaving.delete(name)
        onGone(name)
      }
    })
  const again = () => {
    retry = undefined
    removeAll().catch(failed)
  }
  const failed = (error: unknown) => {
    onError(error)
    retry ??= setTimeout(again, retryMs).unref()
  }
  return {
    begin(name) {
      leaving.add(name)
      removeAll().catch(failed)
    },
    async gone(name) {
      if (leaving.has(name)) await removeAll()
    },
    async settled() {
      await removeAll().catch(failed)
      clearTimeout(retry)
      retry = undefined
    },
  }
}
