/** TCP services: public ports of gateways that lead to ports of apps. */
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
        return (await store.ofApp(deps.db, app.id)).map(service => viewOf(app, service))
      },
    },
    putTcpService: {
      write: async ({ body, params, project, audit }) => {
        const { tcpPorts } = deps.config
        return async tx => {
          const app = await store.lock(tx, project.id, params.app_name)
          if (!app) throw notFound()
          if (app.kind === 'worker') throw invalidState('A worker listens on no port, so it has no services.')
          const known = await store.ofApp(tx, app.id)
          const { service_name: name } = params
          const changed = await store.change(tx, app.id, name, body.port)
          if (!changed && !tcpPorts)
            throw invalidState('This installation has no ports for TCP services. An operator sets MOTE_TCP_PORTS.')
          if (!changed && known.length >= mostServices)
            throw invalidState(`An app has at most ${mostServices} services. Delete one first.`)
          const made = tcpPorts && { appId: app.id, name, port: body.port }
          const service = changed ?? (made && (await store.insert(tx, made, tcpPorts)))
          if (!service)
            throw invalidState('No port is free for another TCP service. Ask the operator (MOTE_TCP_PORTS).')
          await apply(tx, app.id)
          const { publicPort: public_port } = service
          const details = { app: app.name, service: name, port: body.port, public_port }
          audit({ action: 'tcp_service.set', resourceType: 'app', resourceId: app.id, details })
          return viewOf(app, service)
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

/** Hosts let gateways reach the ports, and gateways listen. */
async function apply(tx: Parameters<typeof refreshRoute>[0], appId: string): Promise<void> {
  await changeFirewall(tx, appId)
  await refreshRoute(tx, appId)
}

const viewOf = (app: store.ServedApp, service: store.TcpServiceRow): TcpService => ({
  name: service.name,
  port: service.port,
  public_port: service.publicPort,
  address: `${app.hostname}:${service.publicPort}`,
  created_at: service.createdAt.toISOString(),
})
