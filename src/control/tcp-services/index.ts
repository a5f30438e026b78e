/** TCP services: public ports of gateways that are forwarded to ports of apps. */
import type { Deps } from '../base/deps.ts'
import { invalidState, notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { changeFirewall } from '../network/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { type TcpService, tcpServiceOperations } from './schema.ts'
import * as store from './store.ts'

const mostServices = 10

export const tcpServiceFeature = (deps: Pick<Deps, 'db' | 'config'>) =>
  feature(tcpServiceOperations, {
    listTcpServices: {
      read: async ({ project, params }) => {
        const app = await store.app(deps.db, project.id, params.app_name)
        if (!app) throw notFound()
        return (await store.ofApp(deps.db, app.id)).map(service => viewOf(deps.config, app, service))
      },
    },
    putTcpService: {
      write: async ({ body, params, project, audit }) => {
        return async tx => {
          const app = await store.lock(tx, project.id, params.app_name)
          if (!app) throw notFound()
          if (app.kind === 'worker') throw invalidState('A worker listens on no port, so it cannot have TCP services.')
          const wanted = { appId: app.id, name: params.service_name, port: body.port }
          const service = await put(tx, deps.config, wanted, body.tls ?? undefined)
          await apply(tx, app.id)
          const { name, port, tls, publicPort: public_port } = service
          const details = { app: app.name, service: name, port, tls, public_port }
          audit({ action: 'tcp_service.set', resourceType: 'app', resourceId: app.id, details })
          return viewOf(deps.config, app, service)
        }
      },
    },
    deleteTcpService: {
      write: async ({ params, project, audit }) => {
        return async tx => {
          const app = await store.lock(tx, project.id, params.app_name)
          if (!app || !(await store.remove(tx, app.id, params.service_name))) throw notFound()
          await apply(tx, app.id)
          const details = { app: app.name, service: params.service_name }
          audit({ action: 'tcp_service.delete', resourceType: 'app', resourceId: app.id, details })
          return { status: 'deleted' as const }
        }
      },
    },
  })

/**
 * Applies a change of the app's TCP services: the hosts' firewalls let gateways reach the app's ports, and gateways
 * listen on the public ports.
 */
async function apply(tx: Parameters<typeof refreshRoute>[0], appId: string): Promise<void> {
  await changeFirewall(tx, appId)
  await refreshRoute(tx, appId)
}

type Ports = Pick<Deps['config'], 'tcpPorts' | 'tcpTlsPort'>

/** Creates or changes a TCP service. The caller must hold the lock on the app. @throws ApiError */
async function put(
  tx: Parameters<typeof refreshRoute>[0],
  { tcpPorts, tcpTlsPort }: Ports,
  wanted: store.NewTcpService,
  tls: TcpService['tls'] | undefined,
): Promise<store.TcpServiceRow> {
  const { appId, name, port } = wanted
  const all = await store.ofApp(tx, appId)
  const known = all.find(one => one.name === name)
  const kind = tls ?? known?.tls ?? 'none'
  if (!known && all.length >= mostServices)
    throw invalidState(`An app can have at most ${mostServices} services. Delete one first.`)
  // If the service changes between with and without TLS, delete it first, because the two kinds are in different
  // tables.
  if (known && known.tls !== kind) await store.remove(tx, appId, name)
  if (kind === 'sni') {
    if (known?.tls !== 'sni' && tcpTlsPort === undefined)
      throw invalidState('This installation has no port for services with TLS. An operator sets MOTE_TCP_TLS_PORT.')
    const service = await store.putWithTls(tx, wanted)
    if (service) return service
    const other = all.find(one => one.tls === 'sni')?.name
    throw invalidState(
      `Service "${other}" of this app has tls "sni" already, and the server name can select only one. Delete it, or use tls "none".`,
    )
  }
  const changed = await store.change(tx, appId, name, port)
  if (changed) return changed
  if (!tcpPorts) throw invalidState('This installation has no ports for TCP services. An operator sets MOTE_TCP_PORTS.')
  const made = await store.insert(tx, wanted, tcpPorts)
  if (!made) throw invalidState('No port is free for another TCP service. Ask the operator (MOTE_TCP_PORTS).')
  return made
}

function viewOf({ tcpTlsPort }: Ports, app: store.ServedApp, service: store.TcpServiceRow): TcpService {
  const { name, port, tls, createdAt } = service
  const publicPort = service.publicPort ?? tcpTlsPort ?? null
  return {
    name,
    port,
    tls,
    public_port: publicPort,
    address: publicPort === null ? app.hostname : `${app.hostname}:${publicPort}`,
    created_at: createdAt.toISOString(),
  }
}
