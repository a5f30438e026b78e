/**
 * Converts routes to Traefik's dynamic configuration (v2 and v3; HTTP provider): a router per hostname, and a service
 * per live app. The hostnames of other apps go to a service that is this gateway.
 */
import type { Route } from '../../contract/gateway.ts'
import { type Activator, addressOf, isDirect, isPlainName } from './names.ts'

export interface TraefikRouter {
  readonly rule: string
  readonly service: string
  readonly entryPoints?: readonly string[]
}
export interface TraefikService {
  readonly loadBalancer: {
    readonly servers: readonly { readonly url: string }[]
    readonly passHostHeader: true
  }
}
export interface TraefikConfiguration {
  readonly http: {
    readonly routers: Readonly<Record<string, TraefikRouter>>
    readonly services: Readonly<Record<string, TraefikService>>
  }
}

const activatorName = 'mote-activator'

export function traefikConfiguration(
  routes: Iterable<Route>,
  activator: Activator,
  entryPoints: readonly string[] = [],
): TraefikConfiguration {
  const routers: Record<string, TraefikRouter> = {}
  const services: Record<string, TraefikService> = {
    [activatorName]: serviceOf([addressOf({ ...activator, vmId: '' })]),
  }
  for (const route of routes) {
    if (!isPlainName(route.hostname)) continue
    const service = isDirect(route) ? `app-${route.appId}` : activatorName
    routers[`host-${route.hostname.replaceAll('.', '_')}`] = {
      rule: `Host(\`${route.hostname}\`)`,
      service,
      ...(entryPoints.length > 0 ? { entryPoints } : {}),
    }
    if (isDirect(route)) services[service] = serviceOf(route.backends.map(addressOf))
  }
  return { http: { routers, services } }
}

const serviceOf = (addresses: readonly string[]): TraefikService => ({
  loadBalancer: { servers: addresses.map(address => ({ url: `http://${address}` })), passHostHeader: true },
})
