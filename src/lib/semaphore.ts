/** A semaphore: at most `limit` callers hold it at a time, in the order of their calls. */
export interface Semaphore {
  /**
   * Waits until the semaphore can be held. Resolves with a function that releases it.
   * @throws the signal's reason when aborted while waiting
   */
  take(signal?: AbortSignal): Promise<() => void>
}

export function semaphore(limit: number): Semaphore {
  const waiting: Array<() => void> = []
  let free = limit
  const release = () => {
    const next = waiting.shift()
    if (next) next()
    else free += 1
  }
  const once = (): (() => void) => {
    let held = true
    return () => {
      if (held) release()
      held = false
    }
  }
  return {
    async take(signal) {
      signal?.throwIfAborted()
      if (free > 0) free -= 1
      else await turn(waiting, signal)
      return once()
    },
  }
}

function turn(waiting: Array<() => void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }
    const stop = () => {
      waiting.splice(waiting.indexOf(go), 1)
      reject(signal?.reason)
    }
    waiting.push(go)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
