import { Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, int32, list, maybe, oneOf, resource, text, uint32 } from '../http/types.ts'
import { MeshEvent, MeshStatus, SecurityRule } from './resources.ts'

const rules = { tag: 'Security rules', auth: 'bearer', project: 'selected' } as const
const mesh = { tag: 'Networking', auth: 'bearer', project: 'none', scope: 'read' } as const
const app_name = text({ description: 'Name of the app, in the selected project.', examples: ['shop'] })
const port = (description: string) => uint32({ maximum: 65_535, description, examples: [5432] })

export const networkOperations = operations({
  listSecurityRules: {
    method: 'GET',
    path: '/v1/apps/{app_name}/security-groups',
    summary: 'List security rules',
    description:
      'Lists the firewall rules of an app in the order in which they are checked, each with whether it is enforced. Without rules, VMs are reachable from their own project and from the gateway, and can reach their own project and the internet.',
    ...rules,
    scope: 'read',
    params: Type.Object({ app_name }),
    list: { order: ['priority', 'id'], filters: ['direction'] },
    answer: list(SecurityRule),
    items: [
      {
        id: 'getSecurityRule',
        path: '/v1/apps/{app_name}/security-groups/{rule_id}',
        by: 'id',
        summary: 'Get a security rule',
        description: 'Returns one firewall rule of an app, with whether it is enforced.',
      },
    ],
  },
  createSecurityRule: {
    method: 'POST',
    path: '/v1/apps/{app_name}/security-groups',
    summary: 'Create a security rule',
    description:
      'Adds a firewall rule. It applies to running VMs within about a second, without a restart, and closes open connections that it denies. Traffic from other projects stays blocked regardless of the rules. An app can have at most 100 rules. To change a rule, delete it and create another.',
    ...rules,
    scope: 'write',
    params: Type.Object({ app_name }),
    body: resource(
      'CreateSecurityRuleRequest',
      {
        protocol: oneOf(['tcp', 'udp', 'icmp', 'any'], {
          description: 'Protocol to match. With a port range, `any` means TCP and UDP.',
        }),
        port_start: port('First destination port to match. 0 for `icmp`, and for every port.'),
        port_end: port('Last destination port to match, inclusive. 0 for `icmp`; 65535 for every port.'),
        action: oneOf(['allow', 'deny'], { description: 'What happens to matching packets.' }),
        direction: maybe(oneOf(['inbound', 'outbound']), {
          description:
            'Direction to match. `inbound`: packets to the VMs. `outbound`: packets from the VMs. Default: `inbound`.',
        }),
        cidr: maybe(
          text({
            maxLength: 64,
            description: 'IPv4 or IPv6 network, or single address, of the remote side. Default: every address.',
            examples: ['2001:db8:20::/48'],
          }),
        ),
        priority: maybe(
          int32({
            minimum: 0,
            maximum: 65_535,
            description:
              'Priority of the rule. Rules with a lower number are checked first; of rules with the same number, the older one. Default: after the existing rules.',
            examples: [100],
          }),
        ),
      },
      { description: 'Packets that the rule matches, and what happens to them.' },
    ),
    answer: SecurityRule,
  },
  deleteSecurityRule: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/security-groups/{rule_id}',
    summary: 'Delete a security rule',
    description: 'Deletes a firewall rule. It stops applying to running VMs within about a second, without a restart.',
    ...rules,
    scope: 'write',
    params: Type.Object({
      app_name,
      rule_id: text({
        description: 'Id of the rule, from the list of rules.',
        examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
      }),
    }),
    answer: acknowledgement('deleted'),
  },
  getMesh: {
    method: 'GET',
    path: '/v1/networking/mesh',
    summary: 'Get the mesh',
    description:
      'Returns the hosts of the installation and how they reach each other over WireGuard, as measured in the last few seconds. Addresses, keys and endpoints are shown to administrators only.',
    ...mesh,
    answer: MeshStatus,
  },
  streamMesh: {
    method: 'GET',
    path: '/v1/networking/mesh/stream',
    summary: 'Stream the mesh',
    description:
      'Sends the state that `GET /v1/networking/mesh` returns, with its time as `at`: first as the event `snapshot`, then as `mesh` after each change, at most twice a second.',
    ...mesh,
    answer: 'stream',
    events: { snapshot: MeshEvent, mesh: MeshEvent },
  },
})
