/**
 * Connection pools to VMs, one per backend, created at the first request. A backend that leaves its route gets no new
 * requests; its pool closes after the pending requests or the route's drain time. If the same VM comes back at another
 * address, it has moved, and requests to the old address are aborted, because nothing answers there any more.
 */
import { Pool, errors } from 'undici'
import type { Backend, Route } from '../contract/gateway.ts'
import type { Fault } from './faults.ts'
import { type Health, healthy, isUsable, recordAnswer, recordFault } from './health.ts'

/** A backend chosen for a request. */
export interface Target {
  readonly backend: Backend
  readonly key: string
  readonly pool: Pool
  /** Number of pending requests. */
  readonly open: number
}

export interface BackendPools {
  /**
   * Returns the route's backend with the fewest pending requests that was not tried yet (see `backendKey`). Failing
   * backends are excluded for a while, unless there is no other.
   */
  pick(route: Route, tried?: ReadonlySet<string>): Target | undefined
  /** Counts a request as pending. */
  begin(target: Target): Use
  answered(target: Target): void
  failed(target: Target, fault: Fault): void
  /**
   * Registers a callback for when the request must be aborted: the drain time is over, or the backend has moved.
   * Returns a function that unregisters it.
   */
  onCut(target: Target, cut: () => void): () => void
  /**
   * Drains the pools of the app's backends that no route names any more. Pending requests get `drainMs`; those of a VM
   * in `leaving` may continue until the move has ended.
   */
  retain(appId: string, backends: readonly Backend[], drainMs: number, leaving?: ReadonlySet<string>): void
  /** Number of pending requests at a VM, without long-lived ones. */
  underWay(vmId: string): number
  /** Registers a callback for when the last of these requests at a VM has ended. */
  onIdle(listener: (vmId: string) => void): void
  close(): Promise<void>
}

/** A pending request at a backend. */
export interface Use {
  /** Idempotent. */
  end(): void
  /** Marks the request as long-lived (a WebSocket, an event stream): moves do not wait for it. */
  lasts(): void
}

/** Upper bound; control completes or cancels a move long before. */
const leavingMs = 120_000

/** Identifies a VM at an address. */
export const backendKey = (backend: Backend) => `${backend.vmId} ${backend.host}:${backend.port}`

interface Entry {
  readonly backend: Backend
  readonly key: string
  readonly pool: Pool
  readonly appId: string
  readonly health: Health
  readonly cuts: Set<() => void>
  open: number
  closing: boolean
  drain: NodeJS.Timeout | undefined
}

export const originOf = ({ host, port }: Backend) => `http://${host.includes(':') ? `[${host}]` : host}:${port}`

export function createBackendPools(options: {
  readonly connectionsPerBackend: number
  readonly responseTimeoutMs: number
}): BackendPools {
  const entries = new Map<string, Entry>()
  /** Routes return the same objects for every request, so this avoids computing their keys each time. */
  const byBackend = new WeakMap<Backend, Entry>()
  const closing = new Set<Entry>()
  const brief = briefRequests()
  let turn = 0

  const make = (backend: Backend, appId: string, key: string): Entry => {
    const pool = new Pool(originOf(backend), {
      connections: options.connectionsPerBackend,
      headersTimeout: options.responseTimeoutMs,
      // A stream may be idle for any time.
      bodyTimeout: 0,
      connect: { timeout: 2000 },
    })
    const shared = { backend, key, pool, appId, health: healthy(), cuts: new Set<() => void>() }
    return { ...shared, open: 0, closing: false, drain: undefined }
  }
  const entryOf = (backend: Backend, appId: string): Entry => {
    const known = byBackend.get(backend)
    if (known && !known.closing) return known
    const key = backendKey(backend)
    const entry = entries.get(key) ?? make(backend, appId, key)
    entries.set(key, entry)
    byBackend.set(backend, entry)
    return entry
  }
  const cut = (entry: Entry, reason: string) => {
    clearTimeout(entry.drain)
    for (const release of entry.cuts) release()
    return entry.pool.destroy(new errors.ClientDestroyedError(reason))
  }
  const letGo = (entry: Entry, drainMs: number) => {
    entries.delete(entry.key)
    entry.closing = true
    closing.add(entry)
    entry.drain = setTimeout(() => void cut(entry, 'the VM left the route and its drain time is over'), drainMs)
    void entry.pool.close().finally(() => {
      if (entry.cuts.size === 0) clearTimeout(entry.drain)
      closing.delete(entry)
    })
  }
  const found = (target: Target): Entry | undefined => {
    const entry = byBackend.get(target.backend)
    return entry?.pool === target.pool ? entry : undefined
  }

  return {
    pick(route, tried) {
      const { backends, appId } = route
      const nowMs = performance.now()
      let best: Entry | undefined
      let resort: Entry | undefined
      // Rotates the start, so that equally loaded backends take turns.
      const first = turn++ % Math.max(backends.length, 1)
      for (let n = 0; n < backends.length; n++) {
        const backend = backends[(first + n) % backends.length]
        const entry = backend && entryOf(backend, appId)
        if (!entry || tried?.has(entry.key)) continue
        if (isUsable(entry.health, entry.open, nowMs)) {
          if (!best || entry.open < best.open) best = entry
        } else if (!resort || entry.health.ejectedUntilMs < resort.health.ejectedUntilMs) resort = entry
      }
      return best ?? resort
    },
    begin(target) {
      const entry = found(target)
      const lasts = brief.begin(target.backend.vmId)
      if (entry) entry.open++
      let counted = true
      return {
        lasts,
        end() {
          if (!counted) return
          counted = false
          if (entry) entry.open--
          lasts()
        },
      }
    },
    underWay: brief.count,
    onIdle: brief.onIdle,
    answered(target) {
      const entry = found(target)
      if (entry) recordAnswer(entry.health)
    },
    failed(target, fault) {
      const entry = found(target)
      if (entry && !entry.closing) recordFault(entry.health, fault, performance.now())
    },
    onCut(target, release) {
      const entry = found(target)
      entry?.cuts.add(release)
      return () => {
        entry?.cuts.delete(release)
        if (entry?.closing && entry.cuts.size === 0 && !closing.has(entry)) clearTimeout(entry.drain)
      }
    },
    retain(appId, backends, drainMs, leaving) {
      const kept = new Set(backends.map(backendKey))
      for (const [key, entry] of entries)
        if (entry.appId === appId && !kept.has(key))
          letGo(entry, leaving?.has(entry.backend.vmId) ? Math.max(drainMs, leavingMs) : drainMs)
      const present = new Set(backends.map(backend => backend.vmId))
      // A VM that is back at its old address keeps its connections.
      for (const entry of closing)
        if (present.has(entry.backend.vmId) && !kept.has(entry.key))
          void cut(entry, 'the VM has moved to another address')
    },
    async close() {
      const all = [...entries.values(), ...closing]
      entries.clear()
      await Promise.all(all.map(entry => cut(entry, 'the gateway stops')))
    },
  }
}

/** Counts the requests of each VM that are expected to end soon. */
function briefRequests() {
  const counts = new Map<string, number>()
  const listeners = new Set<(vmId: string) => void>()
  return {
    count: (vmId: string) => counts.get(vmId) ?? 0,
    onIdle: (listener: (vmId: string) => void) => void listeners.add(listener),
    begin(vmId: string): () => void {
      counts.set(vmId, (counts.get(vmId) ?? 0) + 1)
      let counted = true
      return () => {
        if (!counted) return
        counted = false
        const left = (counts.get(vmId) ?? 1) - 1
        if (left > 0) return void counts.set(vmId, left)
        counts.delete(vmId)
        for (const listener of listeners) listener(vmId)
      }
    },
  }
}
