import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import {
  bool,
  dateTime,
  int32,
  int64,
  list,
  maybe,
  nullable,
  oneOf,
  resource,
  text,
  uint32,
  uuid,
} from '../http/types.ts'

export const SecurityRule = resource('SecurityRule', {
  id: uuid(),
  app_id: uuid(),
  protocol: text({ description: '`tcp`, `udp`, `icmp` or `any`' }),
  port_start: uint32(),
  port_end: uint32(),
  action: text({ description: '`allow` or `deny`' }),
  priority: int64({ description: 'Lower comes first.' }),
  direction: text({ description: '`inbound` or `outbound`' }),
  cidr: nullable(text({ description: 'The other side; null: everywhere.' })),
  enforced: bool({ description: 'Whether it holds for every VM of the app now.' }),
  reason: nullable(text({ description: 'Why it is not enforced (yet).' })),
  created_at: dateTime(),
  updated_at: dateTime(),
})
export type SecurityRule = Static<typeof SecurityRule>

export const MeshNode = resource('MeshNode', {
  host_id: text(),
  name: text(),
  address: nullable(text({ description: 'Null for callers who are not Admin, like key and endpoint.' })),
  public_key: nullable(text()),
  endpoint: nullable(text()),
  status: text({ description: '`up`, `degraded`, `unreachable`, `alone`, `down`, `failed` or `off`' }),
  last_handshake_at: nullable(dateTime()),
  rx_bytes: int64(),
  tx_bytes: int64(),
  latency_ms: nullable(Type.Number()),
})
export const MeshStatus = resource('MeshStatus', { enabled: bool(), nodes: list(MeshNode) })
export type MeshStatus = Static<typeof MeshStatus>
const MeshEvent = resource(
  'MeshEvent',
  { at: dateTime({ description: 'When it was looked at.' }), ...MeshStatus.properties },
  { description: 'The mesh at one moment.' },
)

const rules = { tag: 'Security rules', auth: 'bearer', project: 'selected' } as const
const mesh = { tag: 'Networking', auth: 'bearer', project: 'none', scope: 'read' } as const
const port = () => uint32({ maximum: 65_535 })

export const networkOperations = operations({
  listSecurityRules: {
    method: 'GET',
    path: '/v1/apps/{app_name}/security-groups',
    summary: 'Network rules of an app, in the order they apply',
    ...rules,
    scope: 'read',
    params: Type.Object({ app_name: text() }),
    list: { order: ['priority', 'id'], filters: ['direction'] },
    answer: list(SecurityRule),
    items: [
      {
        id: 'getSecurityRule',
        path: '/v1/apps/{app_name}/security-groups/{rule_id}',
        by: 'id',
        summary: 'One network rule',
      },
    ],
  },
  createSecurityRule: {
    method: 'POST',
    path: '/v1/apps/{app_name}/security-groups',
    summary: 'Adds a network rule; running VMs follow within a second',
    ...rules,
    scope: 'write',
    params: Type.Object({ app_name: text() }),
    body: resource('CreateSecurityRuleRequest', {
      protocol: oneOf(['tcp', 'udp', 'icmp', 'any']),
      port_start: port(),
      port_end: port(),
      action: oneOf(['allow', 'deny']),
      direction: maybe(oneOf(['inbound', 'outbound']), { description: 'Default: inbound.' }),
      cidr: maybe(text({ maxLength: 64, description: 'The other side, IPv4 or IPv6. Default: everywhere.' })),
      priority: maybe(int32({ minimum: 0, maximum: 65_535, description: 'Default: after the rules there are.' })),
    }),
    answer: SecurityRule,
  },
  deleteSecurityRule: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/security-groups/{rule_id}',
    summary: 'Removes a network rule',
    ...rules,
    scope: 'write',
    params: Type.Object({ app_name: text(), rule_id: text() }),
    answer: 'free',
  },
  getMesh: {
    method: 'GET',
    path: '/v1/networking/mesh',
    summary: 'Hosts of the private network and how they reach each other',
    ...mesh,
    answer: MeshStatus,
  },
  streamMesh: {
    method: 'GET',
    path: '/v1/networking/mesh/stream',
    summary: 'The mesh as it changes: `snapshot`, then `mesh` events',
    ...mesh,
    answer: 'stream',
    events: { snapshot: MeshEvent, mesh: MeshEvent },
  },
})
