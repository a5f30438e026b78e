/** Computes HAProxy's desired configuration, and the commands that lead to it. Pure functions. */
import type { Route } from '../../contract/gateway.ts'
import { type HaproxyShape, backendName } from './haproxy-config.ts'
import { isDirect, isPlainName } from './names.ts'

export interface HaproxyConfig {
  /** HAProxy's backend for each hostname. Hostnames without an entry go to the gateway. */
  readonly map: ReadonlyMap<string, string>
  /** Addresses of the servers (`host:port`) of each HAProxy backend. */
  readonly servers: ReadonlyMap<string, readonly string[]>
}

/** The current configuration, as `show map` and `show servers state` report it. */
export interface HaproxyState {
  readonly map: ReadonlyMap<string, string>
  /** States of the servers, by backend and by name of the server. */
  readonly servers: ReadonlyMap<string, ReadonlyMap<string, ServerState>>
}
export interface ServerState {
  readonly address: string
  /** Whether the server gets requests; false: it is in maintenance mode. */
  readonly enabled: boolean
}

/**
 * Assigns backends to apps. An app keeps the backend that it has. The gateway itself serves apps for which no backend
 * is free, and apps with more replicas than a backend has servers.
 * @param assigned backend by app; updated by this function
 */
export function desiredOf(routes: Iterable<Route>, shape: HaproxyShape, assigned: Map<string, string>): HaproxyConfig {
  const all = [...routes].filter(route => isPlainName(route.hostname))
  const apps = new Set(all.map(route => route.appId))
  for (const appId of assigned.keys()) if (!apps.has(appId)) assigned.delete(appId)
  const taken = new Set(assigned.values())
  const free = Array.from({ length: shape.backends }, (_, n) => backendName(n + 1)).filter(name => !taken.has(name))
  const map = new Map<string, string>()
  const servers = new Map<string, readonly string[]>()
  for (const route of all) {
    if (!isDirect(route) || route.backends.length > shape.servers) continue
    const backend = assigned.get(route.appId) ?? free.shift()
    if (backend === undefined) continue
    assigned.set(route.appId, backend)
    map.set(route.hostname, backend)
    servers.set(backend, route.backends.map(({ host, port }) => `${host}:${port}`).sort())
  }
  return { map, servers }
}

/**
 * Returns the commands that change HAProxy's configuration, in an order in which no request meets a missing server:
 * first they start new servers, then change the map, and finally stop the removed servers.
 */
export function commandsFor(desired: HaproxyConfig, state: HaproxyState, mapFile: string): string[] {
  const fill: string[] = []
  const empty: string[] = []
  for (const [backend, servers] of state.servers) {
    const wanted = desired.servers.get(backend) ?? []
    const present = new Set([...servers.values()].filter(one => one.enabled).map(one => one.address))
    const missing = wanted.filter(address => !present.has(address))
    for (const [name, one] of servers) {
      const server = `${backend}/${name}`
      if (one.enabled && wanted.includes(one.address)) continue
      if (one.enabled) empty.push(`set server ${server} state maint`)
      else if (missing.length > 0) fill.push(...startServer(server, missing.shift() ?? ''))
    }
  }
  return [...fill, ...mapCommands(desired.map, state.map, mapFile), ...empty]
}

/** Returns the commands that start a server. `set server addr` needs an IP address, because VMs have no DNS names. */
function startServer(server: string, address: string): string[] {
  const at = address.lastIndexOf(':')
  return [
    `set server ${server} addr ${address.slice(0, at)} port ${address.slice(at + 1)}`,
    `set server ${server} state ready`,
  ]
}

function mapCommands(desired: ReadonlyMap<string, string>, state: ReadonlyMap<string, string>, file: string): string[] {
  const commands: string[] = []
  for (const [hostname, backend] of desired) {
    if (!state.has(hostname)) commands.push(`add map ${file} ${hostname} ${backend}`)
    else if (state.get(hostname) !== backend) commands.push(`set map ${file} ${hostname} ${backend}`)
  }
  for (const hostname of state.keys()) if (!desired.has(hostname)) commands.push(`del map ${file} ${hostname}`)
  return commands
}
