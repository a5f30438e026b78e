/**
 * Connections to VMs: one pool per backend, made when it first gets a request. When a backend leaves its route its pool
 * takes no new requests, finishes those under way and closes. When the same VM comes back at another address it has
 * moved, and what was under way at the old one is cut: nobody is left there to answer.
 */
import { Pool, errors } from 'undici'
import type { Backend, Route } from '../contract/gateway.ts'

export interface BackendPools {
  /** The backend of the route with the fewest requests under way, other than those already tried (see `backendKey`). */
  pick(route: Route, tried?: ReadonlySet<string>): { readonly backend: Backend; readonly pool: Pool } | undefined
  /** Counts a request as under way until the returned function is called; calling it twice counts once. */
  begin(backend: Backend): () => void
  /** Closes the pools of backends that no route names any more. */
  retain(appId: string, backends: readonly Backend[]): void
  close(): Promise<void>
}

/** A VM at an address. */
export const backendKey = (backend: Backend) => `${backend.vmId} ${backend.host}:${backend.port}`

interface Entry {
  readonly pool: Pool
  readonly appId: string
  readonly vmId: string
}

export function createBackendPools(options: {
  readonly connectionsPerBackend: number
  readonly responseTimeoutMs: number
}): BackendPools {
  const entries = new Map<string, Entry>()
  const open = new Map<string, number>()
  const closing = new Set<Entry>()
  const load = (backend: Backend) => open.get(backendKey(backend)) ?? 0

  return {
    pick(route, tried) {
      let best: Backend | undefined
      for (const backend of route.backends)
        if (!tried?.has(backendKey(backend)) && (!best || load(backend) < load(best))) best = backend
      if (!best) return undefined
      const key = backendKey(best)
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
        entry = { pool, appId: route.appId, vmId: best.vmId }
        entries.set(key, entry)
      }
      return { backend: best, pool: entry.pool }
    },
    begin(backend) {
      const key = backendKey(backend)
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
      const kept = new Set(backends.map(backendKey))
      for (const [key, entry] of entries)
        if (entry.appId === appId && !kept.has(key)) {
          entries.delete(key)
          closing.add(entry)
          void entry.pool.close().finally(() => closing.delete(entry))
        }
      const present = new Set(backends.map(backend => backend.vmId))
      for (const { pool, vmId } of closing)
        if (present.has(vmId)) void pool.destroy(new errors.ClientDestroyedError('the VM is at another address now'))
    },
    async close() {
      const pools = [...entries.values(), ...closing].map(entry => entry.pool)
      entries.clear()
      await Promise.all(pools.map(pool => pool.destroy()))
    },
  }
}
