/** A fake page server with the parts of the management API that we use (Neon, `pageserver/src/http`). */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

export interface Recorded {
  readonly method: string
  readonly path: string
  readonly body: unknown
}

export interface RecordedPageserver extends AsyncDisposable {
  readonly url: string
  readonly calls: readonly Recorded[]
  readonly tenants: ReadonlyMap<string, { generation: number; timelines: Map<string, TimelineState> }>
  /** Makes the next call with this HTTP method fail with this status. */
  failNext(method: string, status: number): void
}

interface TimelineState {
  readonly ancestor: string | undefined
  readonly ancestorLsn: string | undefined
  readonly version: number | undefined
}

const hex = '[0-9a-f]{32}'
const routes = {
  attach: new RegExp(`^/v1/tenant/(${hex})/location_config$`),
  timelines: new RegExp(`^/v1/tenant/(${hex})/timeline$`),
  timeline: new RegExp(`^/v1/tenant/(${hex})/timeline/(${hex})$`),
  lsn: new RegExp(`^/v1/tenant/(${hex})/timeline/(${hex})/get_lsn_by_timestamp\\?timestamp=`),
  tenant: new RegExp(`^/v1/tenant/(${hex})$`),
}

export async function recordedPageserver(): Promise<RecordedPageserver> {
  const tenants = new Map<string, { generation: number; timelines: Map<string, TimelineState> }>()
  const calls: Recorded[] = []
  const faults: { method: string; status: number }[] = []
  const info = (tenant: string, id: string) => ({
    tenant_id: tenant,
    timeline_id: id,
    last_record_lsn: '0/169AD58',
    prev_record_lsn: '0/169AD20',
    current_logical_size: 22_953_984,
    state: 'Active',
    pg_version: 15,
    remote_consistent_lsn: '0/0',
  })
  const answer = (method: string, path: string, body: Record<string, unknown>): [status: number, body: unknown] => {
    const at = faults.findIndex(fault => fault.method === method)
    if (at !== -1) return [faults.splice(at, 1)[0]?.status ?? 503, { msg: 'try again' }]
    const match = (kind: keyof typeof routes) => routes[kind].exec(path)
    const attach = method === 'PUT' ? match('attach') : null
    if (attach?.[1]) {
      const known = tenants.get(attach[1])
      const generation = Number(body['generation'])
      if (body['mode'] !== 'AttachedSingle' || !Number.isInteger(generation))
        return [400, { msg: 'bad location config' }]
      if (known && generation < known.generation) return [409, { msg: 'generation is older' }]
      tenants.set(attach[1], { generation, timelines: known?.timelines ?? new Map() })
      return [200, { shards: [] }]
    }
    const [, tenantId = '', timelineId = ''] =
      match('timelines') ?? match('timeline') ?? match('lsn') ?? match('tenant') ?? []
    const tenant = tenants.get(tenantId)
    if (!tenant) return [404, { msg: 'tenant not found' }]
    if (method === 'POST' && match('timelines')) return create(tenantId, tenant.timelines, body)
    if (method === 'GET' && match('lsn')) return [200, { lsn: '0/1500000', kind: 'present' }]
    if (method === 'GET' && match('timeline'))
      return tenant.timelines.has(timelineId) ? [200, info(tenantId, timelineId)] : [404, { msg: 'timeline not found' }]
    if (method === 'DELETE' && match('timeline')) return remove(tenant.timelines, timelineId)
    if (method === 'DELETE' && match('tenant')) {
      tenants.delete(tenantId)
      return [200, null]
    }
    return [405, { msg: 'no such call' }]
  }
  const create = (
    tenantId: string,
    timelines: Map<string, TimelineState>,
    body: Record<string, unknown>,
  ): [status: number, body: unknown] => {
    const id = String(body['new_timeline_id'])
    const ancestor = body['ancestor_timeline_id'] as string | undefined
    if (!new RegExp(`^${hex}$`).test(id)) return [400, { msg: 'bad timeline id' }]
    if (timelines.has(id)) return [409, { msg: 'timeline already exists' }]
    if (ancestor !== undefined && !timelines.has(ancestor)) return [404, { msg: 'ancestor not found' }]
    if (ancestor === undefined && body['pg_version'] === undefined) return [400, { msg: 'pg_version is missing' }]
    timelines.set(id, {
      ancestor,
      ancestorLsn: body['ancestor_start_lsn'] as string | undefined,
      version: body['pg_version'] as number | undefined,
    })
    return [201, info(tenantId, id)]
  }
  const remove = (timelines: Map<string, TimelineState>, id: string): [status: number, body: unknown] => {
    if ([...timelines.values()].some(({ ancestor }) => ancestor === id)) return [412, { msg: 'timeline has children' }]
    return timelines.delete(id) ? [202, null] : [404, { msg: 'timeline not found' }]
  }

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const method = request.method ?? ''
    const path = request.url ?? ''
    const body = method === 'PUT' || method === 'POST' ? await json(request) : undefined
    calls.push({ method, path, body })
    const [status, answered] = answer(method, path, (body ?? {}) as Record<string, unknown>)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answered))
  }
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    tenants,
    failNext: (method, status) => void faults.push({ method, status }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
