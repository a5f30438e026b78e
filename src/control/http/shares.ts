/**
 * Limits how many requests of one tenant run at a time (docs/decisions/0122-shares-of-a-tenant.md). Rate limits are not
 * enough: a tenant that was idle for a minute may send a minute's quota at once, and the requests of other tenants
 * would wait behind all of them for the event loop and for the few connections to PostgreSQL.
 */

/** One of the places (concurrent requests) of a tenant. Held until it is released or its `using` scope ends. */
export interface Place extends Disposable {
  /** Frees the place. Further calls do nothing. */
  release(): void
}

/** The place of a request that is not limited. */
export const noPlace: Place = { release: () => undefined, [Symbol.dispose]: () => undefined }

export interface Shares {
  /** Returns a place of the tenant; undefined if none is free. */
  tryTake(key: string): Place | undefined
  /** Waits for a place, first come, first served. @throws the reason of the signal if it aborts meanwhile */
  take(key: string, signal: () => AbortSignal): Promise<Place>
  /** Number of tenants that hold a place or have a waiting request. */
  readonly size: number
}

interface Share {
  held: number
  readonly waiting: (() => void)[]
}

/** Creates the places of all tenants. @param most places per tenant */
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

/** Resolves when this request gets a place. */
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
