/**
 * Connections to VMs: one pool per backend, made when it first gets a request. When a backend leaves its route its pool
 * takes no new requests, finishes those under way and closes.
 */
import { Pool } from 'undici'
import type { Backend, Route } from '../contract/gateway.ts'

export interface BackendPools {
  /** The backend of the route with the fewest requests under way, other than those already tried. */
  pick(route: Route, tried?: ReadonlySet<string>): { readonly backend: Backend; readonly pool: Pool } | undefined
  /** Counts a request as under way until the returned function is called; calling it twice counts once. */
  begin(backend: Backend): () => void
  /** Closes the pools of backends that no route names any more. */
  retain(appId: string, backends: readonly Backend[]): void
  close(): Promise<void>
}

interface Entry {
  readonly pool: Pool
  readonly appId: string
}

export function createBackendPools(options: {
  readonly connectionsPerBackend: number
  readonly responseTimeoutMs: number
}): BackendPools {
  const entries = new Map<string, Entry>()
  const open = new Map<string, number>()
  const keyOf = (backend: Backend) => `${backend.vmId} ${backend.host}:${backend.port}`
  const load = (backend: Backend) => open.get(keyOf(backend)) ?? 0

  return {
    pick(route, tried) {
      let best: Backend | undefined
      for (const backend of route.backends)
        if (!tried?.has(backend.vmId) && (!best || load(backend) < load(best))) best = backend
      if (!best) return undefined
      const key = keyOf(best)
      let entry = entries.get(key)
      if (!entry) {
        const host = best.host.includes(':') ? `[${best.host}]` : best.host
        const pool = new Pool(`http://${host}:${best.port}`, {
          connections: options.connectionsPerBackend,
          headersTimeout: options.responseTimeoutMs,
          // A stream may be silent for as long as it likes.
          bodyTimeout: 0,
          connect: { timeout: 2000 },
        })
        entry = { pool, appId: route.appId }
        entries.set(key, entry)
      }
      return { backend: best, pool: entry.pool }
    },
    begin(backend) {
      const key = keyOf(backend)
      open.set(key, (open.get(key) ?? 0) + 1)
      let counted = true
      return () => {
        if (!counted) return
        counted = false
        const left = (open.get(key) ?? 1) - 1
        if (left === 0) open.delete(key)
        else open.set(key, left)
      }
    },
    retain(appId, backends) {
      const kept = new Set(backends.map(keyOf))
      for (const [key, entry] of entries)
        if (entry.appId === appId && !kept.has(key)) {
          entries.delete(key)
          void entry.pool.close()
        }
    },
    async close() {
      const pools = [...entries.values()].map(entry => entry.pool)
      entries.clear()
      await Promise.all(pools.map(pool => pool.destroy()))
    },
  }
}
