/**
 * Limits how many requests of one tenant run at a time (docs/decisions/0122-shares-of-a-tenant.md). Rate limits are not
 * enough: a tenant that was idle for a minute may send a minute's quota at once, and the requests of other tenants
 * would wait behind all of them for the event loop and for the few connections to PostgreSQL.
 */

/** A slot for one running request of a tenant. Taken until it is released or its `using` scope ends. */
export interface Place extends Disposable {
  /** Frees the slot. Further calls do nothing. */
  release(): void
}

/** The slot of a request that is not limited. */
export const noPlace: Place = { release: () => undefined, [Symbol.dispose]: () => undefined }

export interface Shares {
  /** Takes a slot of the tenant; undefined if all of them are taken. */
  tryTake(key: string): Place | undefined
  /**
   * Takes a slot of the tenant. Waits for one if all are taken: requests get slots in the order of their arrival.
   * @throws the reason of the signal if the signal is aborted while the request waits
   */
  take(key: string, signal: () => AbortSignal): Promise<Place>
  /** Number of tenants with a running or waiting request. */
  readonly size: number
}

interface Share {
  held: number
  readonly waiting: (() => void)[]
}

/** Creates the slots of all tenants. @param most number of slots per tenant, so of its concurrent requests */
export function createShares(most: number): Shares {
  const shares = new Map<string, Share>()
  const placeIn = (key: string, share: Share): Place => {
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      const next = share.waiting.shift()
      if (next) return next()
      share.held--
      if (share.held === 0) shares.delete(key)
    }
    return { release, [Symbol.dispose]: release }
  }
  const tryTake = (key: string): Place | undefined => {
    let share = shares.get(key)
    if (share === undefined) {
      share = { held: 0, waiting: [] }
      shares.set(key, share)
    }
    if (share.held >= most) return undefined
    share.held++
    return placeIn(key, share)
  }
  return {
    tryTake,
    async take(key, signal) {
      const place = tryTake(key)
      const share = shares.get(key)
      if (place || !share) return place ?? noPlace
      await turn(share.waiting, signal())
      return placeIn(key, share)
    },
    get size() {
      return shares.size
    },
  }
}

/** Resolves when it is this request's turn to run. @throws the reason of the signal if it is aborted before */
function turn(waiting: (() => void)[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = () => {
      signal.removeEventListener('abort', stop)
      resolve()
    }
    const stop = () => {
      waiting.splice(waiting.indexOf(go), 1)
      reject(signal.reason instanceof Error ? signal.reason : new Error('the client has disconnected'))
    }
    if (signal.aborted) return stop()
    waiting.push(go)
    signal.addEventListener('abort', stop, { once: true })
  })
}
