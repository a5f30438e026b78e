import type { Route } from '../../contract/gateway.ts'

/**
 * Returns whether the site's edge proxy can send requests directly to the VMs. Otherwise it sends them to the gateway,
 * which holds them, wakes the app, or responds with an error page.
 */
export const isDirect = (route: Route) => route.state === 'live' && route.backends.length > 0

/**
 * Returns whether the hostname has only letters, digits, dots and dashes. Names of apps and verified domains have no
 * others, but are checked again before they are written into configurations.
 */
export const isPlainName = (hostname: string) => /^[a-z0-9.-]{1,253}$/.test(hostname)

export const addressOf = ({ host, port }: Route['backends'][number]) =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/** Address on which an edge proxy reaches this gateway. */
export interface Activator {
  readonly host: string
  readonly port: number
}
