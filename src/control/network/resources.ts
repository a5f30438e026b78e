/** Schemas of the responses of API operations on networks. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, int64, list, nullable, oneOf, resource, text, uint32, uuid } from '../http/types.ts'

export const SecurityRule = resource(
  'SecurityRule',
  {
    id: uuid({ description: 'Id of the rule, needed to delete it.' }),
    app_id: uuid({ description: 'Id of the app whose VMs the rule applies to.' }),
    protocol: text({
      description:
        'Protocol that the rule matches: `tcp`, `udp`, `icmp` or `any`. With a port range, `any` means TCP and UDP.',
      examples: ['tcp'],
    }),
    port_start: uint32({
      description:
        'First destination port that the rule matches; 0 together with `port_end` 0 or 65535 means every port.',
      examples: [5432],
    }),
    port_end: uint32({ description: 'Last destination port that the rule matches, inclusive.', examples: [5432] }),
    action: text({ description: 'What happens to matching packets: `allow` or `deny`.', examples: ['allow'] }),
    priority: int64({
      description:
        'Priority among the rules of the app. Rules with a lower number are checked first, and the first matching rule decides.',
      examples: [100],
    }),
    direction: text({
      description:
        'Direction that the rule matches. `inbound`: packets to the VMs. `outbound`: packets from the VMs. Replies to allowed packets always pass.',
      examples: ['inbound'],
    }),
    cidr: nullable(
      text({
        description: 'IPv4 or IPv6 network of the remote side; null for every address.',
        examples: ['2001:db8:20::/48'],
      }),
    ),
    enforced: bool({
      description: 'Whether the current rules are enforced for every VM of the app. False while the app has no VM.',
    }),
    reason: nullable(
      text({
        description: 'Why the rule is not, or not yet, enforced; null if it is enforced.',
        examples: [null, 'not yet enforced for 1 of 2 VMs'],
      }),
    ),
    created_at: dateTime({ description: 'When the rule was created.' }),
    updated_at: dateTime({ description: 'Same as `created_at`: rules are replaced, not changed.' }),
  },
  { description: 'A firewall rule that allows or denies packets to or from the VMs of an app.' },
)
export type SecurityRule = Static<typeof SecurityRule>

export const nodeStatuses = ['up', 'degraded', 'unreachable', 'alone', 'down', 'failed', 'off'] as const

export const MeshNode = resource(
  'MeshNode',
  {
    host_id: text({
      description: 'UUID of the host.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    name: text({ description: 'Name of the host.', examples: ['host-1'] }),
    address: nullable(
      text({
        description: 'IPv6 address of the host in the mesh; null outside the mesh and for callers who are not Admin.',
        examples: ['fd12:3456:789a:0:8b1f:20c4:77d1:5e02'],
      }),
    ),
    public_key: nullable(
      text({
        description: 'WireGuard public key of the host; null outside the mesh and for callers who are not Admin.',
        examples: ['AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='],
      }),
    ),
    endpoint: nullable(
      text({
        description:
          'Address and UDP port at which other hosts reach the host; null outside the mesh and for callers who are not Admin.',
        examples: ['203.0.113.20:51820'],
      }),
    ),
    status: oneOf(nodeStatuses, {
      description:
        '`up`, `degraded`, `unreachable`: the host is connected, in both directions, with all, some or none of the other hosts that send reports. `alone`: there is no other host. `down`: the agent of the host does not report. `failed`: the mesh does not start on the host; see the log of its agent. `off`: the host is not in the mesh.',
    }),
    last_handshake_at: nullable(
      dateTime({ description: 'Time of the last WireGuard handshake with any other host; null if there was none.' }),
    ),
    rx_bytes: int64({
      description: 'Bytes that the host received over the mesh since its tunnels were set up.',
      examples: [73_400_320],
    }),
    tx_bytes: int64({
      description: 'Bytes that the host sent over the mesh since its tunnels were set up.',
      examples: [68_157_440],
    }),
    latency_ms: nullable(
      Type.Number({
        description: 'Median round-trip time to the connected hosts in milliseconds; null if no host is connected.',
        examples: [0.42],
      }),
    ),
  },
  { description: 'A host, and how other hosts reach it.' },
)
export const MeshStatus = resource(
  'MeshStatus',
  {
    enabled: bool({ description: 'Whether any host is in the mesh.' }),
    nodes: list(MeshNode, { description: 'Every host of the installation, by name.' }),
  },
  { description: 'State of the private network between hosts.' },
)
export type MeshStatus = Static<typeof MeshStatus>

export const MeshEvent = resource(
  'MeshEvent',
  { at: dateTime({ description: 'When the state was read.' }), ...MeshStatus.properties },
  { description: 'State of the mesh at one point in time.' },
)
