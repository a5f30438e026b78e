import type { Route } from '../../contract/gateway.ts'

/** Whether the site's own edge can send requests straight to the VMs; else they come to us, who hold, wake or explain. */
export const isDirect = (route: Route) => route.state === 'live' && route.backends.length > 0

/** Hostnames come from apps and verified domains: letters, digits, dots and dashes. They are checked again where they become text. */
export const isPlainName = (hostname: string) => /^[a-z0-9.-]{1,253}$/.test(hostname)

export const addressOf = ({ host, port }: Route['backends'][number]) =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/** How an edge in front of us reaches this gateway. */
export interface Activator {
  readonly host: string
  readonly port: number
}
