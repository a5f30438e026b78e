/** Delivers messages to one handler asynchronously, in order, one at a time. */
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Number of messages after which the queue yields to the event loop. A handler that never awaits I/O would otherwise
 * block it.
 */
const burst = 64

export interface MessageQueue<T> {
  push(item: T): void
  /** Removes the waiting items for which `keep` returns false. */
  prune(keep: (item: T) => boolean): void
  readonly waiting: number
  /** Stops the delivery. A running handler finishes. */
  stop(): void
}

/** Creates a queue. @param deliver handles one item; must not throw */
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
