/**
 * Connection pools, one per backend (a VM at an address), created at its first request. A backend that leaves its route
 * gets no new requests; its pool closes when the pending requests have ended, or after the route's drain time. If the
 * same VM reappears at another address, it has moved: requests to the old address are aborted, because nothing responds
 * there any more.
 */
import { buildConnector, Pool, errors } from 'undici'
import type { Backend, Route } from '../contract/gateway.ts'
import type { Fault } from './faults.ts'
import { type Health, healthy, isUsable, recordAnswer, recordFault } from './health.ts'

/** A backend that was chosen for a request. */
export interface Target {
  readonly backend: Backend
  readonly key: string
  readonly pool: Pool
  /** Number of pending requests at the backend. */
  readonly open: number
}

export interface BackendPools {
  /**
   * Returns the backend of the route with the fewest pending requests, except those in `tried` (see `backendKey`).
   * Failing backends are excluded for a while, unless there is no other.
   */
  pick(route: Route, tried?: ReadonlySet<string>): Target | undefined
  /** Counts a request as pending, until `end` of the returned object is called. */
  begin(target: Target): Use
  answered(target: Target): void
  failed(target: Target, fault: Fault): void
  /**
   * Registers a callback that must abort a request, because the drain time is over or the VM has another address.
   * Returns a function that unregisters it.
   */
  onCut(target: Target, cut: () => void): () => void
  /**
   * Drains those pools of the app whose backends no route contains any more. Pending requests get `drainMs` to finish;
   * those of a VM in `leaving` may continue until its move has ended.
   */
  retain(appId: string, backends: readonly Backend[], drainMs: number, leaving?: ReadonlySet<string>): void
  /** Returns the number of pending requests at a VM, without WebSockets and event streams. */
  underWay(vmId: string): number
  /**
   * Registers a callback for when the last pending request at a VM has ended, not counting WebSockets and event
   * streams.
   */
  onIdle(listener: (vmId: string) => void): void
  close(): Promise<void>
}

/** A pending request at a backend. */
export interface Use {
  /** Idempotent. */
  end(): void
  /** Marks the request as long-lived (a WebSocket or event stream): moves do not wait for it. */
  lasts(): void
}

/**
 * Drain time of VMs that are moving to another host. Only an upper bound, because control completes or cancels a move
 * long before.
 */
const leavingMs = 120_000

/** Returns the key of a backend: its VM and address. */
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

interface PoolOptions {
  readonly connectionsPerBackend: number
  readonly responseTimeoutMs: number
}

/** The state that the functions of `createBackendPools` share. */
interface Pools {
  readonly options: PoolOptions
  /** Entries by the key of their backend (`backendKey`). */
  readonly entries: Map<string, Entry>
  /**
   * Entries by backend object. Routes return the same objects for every request, so this saves computing their keys
   * each time.
   */
  readonly byBackend: WeakMap<Backend, Entry>
  readonly closing: Set<Entry>
  /** Number of backends chosen so far, which determines where the next search starts. */
  turn: number
}

export function createBackendPools(options: PoolOptions): BackendPools {
  const pools: Pools = { options, entries: new Map(), byBackend: new WeakMap(), closing: new Set(), turn: 0 }
  const { entries, closing } = pools
  const brief = briefRequests()
  return {
    pick: (route, tried) => pick(pools, route, tried),
    begin(target) {
      const entry = entryOfTarget(pools, target)
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
      const entry = entryOfTarget(pools, target)
      if (entry) recordAnswer(entry.health)
    },
    failed(target, fault) {
      const entry = entryOfTarget(pools, target)
      if (entry && !entry.closing) recordFault(entry.health, fault, performance.now())
    },
    onCut(target, release) {
      const entry = entryOfTarget(pools, target)
      entry?.cuts.add(release)
      return () => {
        entry?.cuts.delete(release)
        if (entry?.closing && entry.cuts.size === 0 && !closing.has(entry)) clearTimeout(entry.drain)
      }
    },
    retain: (appId, backends, drainMs, leaving) => retain(pools, { appId, backends, drainMs, leaving }),
    async close() {
      const all = [...entries.values(), ...closing]
      entries.clear()
      await Promise.all(all.map(entry => cut(entry, 'the gateway stops')))
    },
  }
}

/**
 * Implements `BackendPools.pick`. A canary gets its share of the requests at random. If one version has no usable
 * backend, or was already tried, the other is used, so that a retry succeeds where the canary failed.
 */
function pick(pools: Pools, route: Route, tried: ReadonlySet<string> | undefined): Target | undefined {
  const { canary, backends, appId } = route
  if (!canary) return pickOf(pools, backends, appId, tried)
  const isCanary = !tried?.size && Math.random() * 100 < canary.percent
  const [first, second] = isCanary ? [canary.backends, backends] : [backends, canary.backends]
  return pickOf(pools, first, appId, tried) ?? pickOf(pools, second, appId, tried)
}

function pickOf(
  pools: Pools,
  backends: readonly Backend[],
  appId: string,
  tried: ReadonlySet<string> | undefined,
): Target | undefined {
  const nowMs = performance.now()
  let best: Entry | undefined
  let resort: Entry | undefined
  // Start the search at another backend each time, so that equally loaded backends take turns.
  const first = pools.turn++ % Math.max(backends.length, 1)
  for (let n = 0; n < backends.length; n++) {
    const backend = backends[(first + n) % backends.length]
    const entry = backend && entryOf(pools, backend, appId)
    if (!entry || tried?.has(entry.key)) continue
    if (isUsable(entry.health, entry.open, nowMs)) {
      if (!best || entry.open < best.open) best = entry
    } else if (!resort || entry.health.ejectedUntilMs < resort.health.ejectedUntilMs) resort = entry
  }
  return best ?? resort
}

interface Retained {
  readonly appId: string
  readonly backends: readonly Backend[]
  readonly drainMs: number
  readonly leaving: ReadonlySet<string> | undefined
}

/** Implements `BackendPools.retain`. */
function retain(pools: Pools, { appId, backends, drainMs, leaving }: Retained): void {
  const kept = new Set(backends.map(backendKey))
  for (const [key, entry] of pools.entries)
    if (entry.appId === appId && !kept.has(key))
      drain(pools, entry, leaving?.has(entry.backend.vmId) ? Math.max(drainMs, leavingMs) : drainMs)
  const present = new Set(backends.map(backend => backend.vmId))
  // If a VM has returned to its old address, do not abort the requests there.
  for (const entry of pools.closing)
    if (present.has(entry.backend.vmId) && !kept.has(entry.key)) void cut(entry, 'the VM has moved to another address')
}

const connectPlain = buildConnector({ timeout: 2000 })

/**
 * Connects to a gVisor VM (see `resetsClosed`). When the app closes the connection, the gateway resets it instead of
 * sending a FIN, because gVisor would otherwise keep the connection's buffers for a minute. All data has been received
 * by then.
 */
const connectThatResets: buildConnector.connector = (options, callback) =>
  connectPlain(options, (...result) => {
    const [, socket] = result
    if (socket) {
      const destroy = socket.destroy.bind(socket)
      // undici destroys the socket with this error after a response with `Connection: close`
      // (lib/dispatcher/client-h1.js).
      socket.destroy = error => (error?.message === 'reset' ? socket.resetAndDestroy() : destroy(error))
      socket.once('end', () => socket.resetAndDestroy())
    }
    callback(...result)
  })

function makeEntry({ connectionsPerBackend, responseTimeoutMs }: PoolOptions, backend: Backend, appId: string): Entry {
  const pool = new Pool(originOf(backend), {
    connections: connectionsPerBackend,
    headersTimeout: responseTimeoutMs,
    // Set no timeout between parts of the body, because a stream may be idle for any time.
    bodyTimeout: 0,
    connect: backend.resetsClosed ? connectThatResets : { timeout: 2000 },
  })
  return {
    backend,
    key: backendKey(backend),
    pool,
    appId,
    health: healthy(),
    cuts: new Set(),
    open: 0,
    closing: false,
    drain: undefined,
  }
}

/** Returns the backend's entry, creating it if necessary. */
function entryOf({ options, entries, byBackend }: Pools, backend: Backend, appId: string): Entry {
  const known = byBackend.get(backend)
  if (known && !known.closing) return known
  const key = backendKey(backend)
  const entry = entries.get(key) ?? makeEntry(options, backend, appId)
  entries.set(key, entry)
  byBackend.set(backend, entry)
  return entry
}

function entryOfTarget({ byBackend }: Pools, target: Target): Entry | undefined {
  const entry = byBackend.get(target.backend)
  return entry?.pool === target.pool ? entry : undefined
}

/** Aborts the pending requests at a backend, and closes its pool. */
function cut(entry: Entry, reason: string): Promise<void> {
  clearTimeout(entry.drain)
  for (const release of entry.cuts) release()
  return entry.pool.destroy(new errors.ClientDestroyedError(reason))
}

/** Closes the pool of a backend when its pending requests have ended, or after `drainMs`. */
function drain({ entries, closing }: Pools, entry: Entry, drainMs: number): void {
  entries.delete(entry.key)
  entry.closing = true
  closing.add(entry)
  entry.drain = setTimeout(() => void cut(entry, 'the VM left the route and its drain time is over'), drainMs)
  void entry.pool.close().finally(() => {
    if (entry.cuts.size === 0) clearTimeout(entry.drain)
    closing.delete(entry)
  })
}

/** Counts the pending requests of each VM, without WebSockets and event streams. */
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
