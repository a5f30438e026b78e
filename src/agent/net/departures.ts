/**
 * Removes taps that no VM uses any more, with their nftables rules. For each removal, the kernel waits for a grace
 * period without using CPU time: 20 to 29 ms for network devices, and as long for chains of rules. A removal of several
 * taps waits only once, so taps that are queued during a removal are removed together in the next one (decision 55).
 */
import { createKeyedMutex } from '../../lib/keyed-mutex.ts'

export interface Departures {
  /** Queues the tap with this name for removal and returns immediately. */
  begin(name: string): void
  /** Resolves when the tap and its rules are removed. @throws the error of a failed removal, which will be retried */
  gone(name: string): Promise<void>
  /** Tries to remove all queued taps, and resolves when that is done. Passes errors to `onError` and does not throw. */
  settled(): Promise<void>
  /** Tries to remove all queued taps like `settled`, and retries no failed removal after that. */
  close(): Promise<void>
}

interface DeparturesOptions {
  /** Removes all of these taps, or throws if one of them remains. Idempotent. */
  readonly remove: (names: readonly string[]) => Promise<void>
  readonly onGone: (name: string) => void
  readonly onError: (error: unknown) => void
  readonly retryMs?: number
}

export function createDepartures({ remove, onGone, onError, retryMs = 1_000 }: DeparturesOptions): Departures {
  const leaving = new Set<string>()
  /** Taps whose removal failed, with the error. They are retried one by one, so that none of them delays the others. */
  const stuck = new Map<string, unknown>()
  const mutex = createKeyedMutex()
  let retry: NodeJS.Timeout | undefined

  const take = async (names: readonly string[]): Promise<void> => {
    const [only = '', ...more] = names
    try {
      await remove(names)
    } catch (error) {
      if (more.length === 0) stuck.set(only, error)
      else for (const name of names) await take([name])
      return
    }
    for (const name of names) {
      leaving.delete(name)
      stuck.delete(name)
      onGone(name)
    }
  }
  /** Removes all queued taps. @param again selects the taps to retry from those whose removal failed */
  const removeAll = (again: (name: string) => boolean) =>
    mutex.take('all', async () => {
      const names = [...leaving].filter(name => !stuck.has(name))
      const late = [...stuck.keys()].filter(again)
      if (names.length > 0) await take(names)
      for (const name of late) await take([name])
      if (stuck.size > 0) retry ??= setTimeout(tryAgain, retryMs).unref()
      return [...names, ...late]
    })
  const report = (tried: readonly string[]) => {
    for (const name of tried) if (stuck.has(name)) onError(stuck.get(name))
  }
  const tryAgain = () => {
    retry = undefined
    void removeAll(() => true).then(report)
  }
  const settled = async () => report(await removeAll(() => true))
  return {
    begin(name) {
      leaving.add(name)
      void removeAll(() => false).then(report)
    },
    async gone(name) {
      if (leaving.has(name)) await removeAll(one => one === name)
      if (stuck.has(name)) throw stuck.get(name)
    },
    settled,
    async close() {
      await settled()
      clearTimeout(retry)
      retry = undefined
    },
  }
}
