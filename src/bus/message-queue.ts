/** Hands messages to one handler: later than the publish, in order, one at a time. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/** A handler that never really waits would keep the event loop for itself; after so many messages the others get a turn. */
const burst = 64

export interface MessageQueue<T> {
  push(item: T): void
  /** Keeps only the waiting items that pass. */
  prune(keep: (item: T) => boolean): void
  readonly waiting: number
  /** No item is handed over after this; what the handler is doing now runs to its end. */
  stop(): void
}

/** `deliver` must not throw. */
export function createMessageQueue<T>(deliver: (item: T) => Promise<void>): MessageQueue<T> {
  let queue: T[] = []
  let running = false
  let stopped = false
  const run = async () => {
    await nextTurn()
    for (let count = 1; queue.length > 0; ) {
      const batch = queue
      queue = []
      for (const item of batch) {
        if (stopped) return
        await deliver(item)
        if (count++ % burst === 0) await nextTurn()
      }
    }
    running = false
  }
  return {
    push(item) {
      if (stopped) return
      queue.push(item)
      if (running) return
      running = true
      void run()
    },
    prune(keep) {
      queue = queue.filter(keep)
    },
    get waiting() {
      return queue.length
    },
    stop() {
      stopped = true
      queue = []
    },
  }
}
