import type { Route } from '../../contract/gateway.ts'

/**
 * Whether the site's edge proxy can send requests directly to the VMs; otherwise they go to the gateway, which holds
 * them, wakes the app or answers with a page.
 */
export const isDirect = (route: Route) => route.state === 'live' && route.backends.length > 0

/**
 * Hostnames come from apps and verified domains: letters, digits, dots and dashes. They are checked again where they
 * are written into configurations.
 */
export const isPlainName = (hostname: string) => /^[a-z0-9.-]{1,253}$/.test(hostname)

export const addressOf = ({ host, port }: Route['backends'][number]) =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/** Address on which an edge proxy reaches this gateway. */
export interface Activator {
  readonly host: string
  readonly port: number
}
