import type { MeshNode, MeshStatus } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Network } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { useStream } from '../api/live.ts'
import { queries, queryClient } from '../api/queries.ts'
import { bytes } from '../ui/format.ts'
import { Card, Mono, Page } from '../ui/layout.tsx'
import { LiveDot } from '../ui/live-dot.tsx'
import { Empty, Loaded, Notice, Problem } from '../ui/states.tsx'
import { Status } from '../ui/status.tsx'
import { Table } from '../ui/table.tsx'
import { placesOf, type Place, sizePx } from './mesh-places.ts'

export function Mesh() {
  const mesh = useQuery(queries.mesh())
  return (
    <Page title="Mesh" lead="The encrypted private network between hosts, which connects the VMs of a project.">
      {mesh.error ? (
        <Card>
          <Problem error={mesh.error} retry={() => void mesh.refetch()} />
        </Card>
      ) : (
        <Loaded query={mesh}>{status => <Live status={status} />}</Loaded>
      )}
    </Page>
  )
}

function Live({ status }: { readonly status: MeshStatus }) {
  const { state } = useStream(
    'mesh',
    options => api.streamMesh(options),
    ({ event }) => {
      if (event !== 'gap') void queryClient.invalidateQueries({ queryKey: ['mesh'] })
    },
  )
  const [chosen, setChosen] = useState<string>()
  if (status.nodes.length === 0)
    return (
      <Card>
        <Empty icon={Network} title="No hosts in the mesh">
          Hosts appear here once their agent has joined. A single host needs no mesh.
        </Empty>
      </Card>
    )
  return (
    <div className="space-y-4">
      {!status.enabled && (
        <Notice>
          The mesh is off: there is only one host, or the operator has disabled it. VMs on the same host can still reach
          each other.
        </Notice>
      )}
      <Card title="Map" actions={<LiveDot state={state} />}>
        <Map nodes={status.nodes} chosen={chosen} choose={setChosen} />
      </Card>
      <Card flush title="Hosts">
        <NodeTable nodes={status.nodes} />
      </Card>
    </div>
  )
}

const colorOf = (status: string) => {
  if (status === 'up' || status === 'alone') return 'var(--good)'
  if (status === 'off') return 'var(--line-strong)'
  return ['down', 'unreachable', 'failed'].includes(status) ? 'var(--bad)' : 'var(--warn)'
}

/** A map with every host on an ellipse and a line between each pair; the table below has the same data as text. */
function Map({
  nodes,
  chosen,
  choose,
}: {
  readonly nodes: readonly MeshNode[]
  readonly chosen: string | undefined
  readonly choose: (id: string | undefined) => void
}) {
  const places = placesOf(nodes)
  const shown = places.find(place => place.node.host_id === chosen)?.node
  return (
    <div className="grid items-center gap-6 md:grid-cols-[minmax(0,1fr)_240px]">
      <svg
        viewBox={`0 0 ${sizePx} ${sizePx * 0.62}`}
        role="img"
        aria-label={`Map of ${nodes.length} hosts`}
        className="w-full"
      >
        {places.flatMap((from, index) =>
          places
            .slice(index + 1)
            .map(to => <Line key={`${from.node.host_id}${to.node.host_id}`} from={from} to={to} chosen={chosen} />),
        )}
        {places.map(({ node, x, y }) => (
          <g
            key={node.host_id}
            onMouseEnter={() => choose(node.host_id)}
            onMouseLeave={() => choose(undefined)}
            className="transition-opacity"
            opacity={chosen && chosen !== node.host_id ? 0.6 : 1}
          >
            <circle cx={x} cy={y} r="20" fill="var(--surface)" stroke="var(--line-strong)" />
            <circle cx={x} cy={y} r="7" fill={colorOf(node.status)} />
            <text
              x={x}
              y={y + 38}
              textAnchor="middle"
              fill="var(--text)"
              fontWeight="500"
              className="text-[13px] max-sm:translate-y-2.5 max-sm:text-[26px]"
            >
              {node.name}
            </text>
          </g>
        ))}
      </svg>
      <dl className="grid grid-cols-2 gap-3 text-sm md:grid-cols-1">
        <div>
          <dt className="text-xs text-muted">{shown ? 'Host' : 'Hosts'}</dt>
          <dd className="text-base font-semibold">{shown?.name ?? nodes.length}</dd>
        </div>
        <div>
          <dt className="text-xs text-muted">Received</dt>
          <dd className="tabular-nums">
            {bytes(shown?.rx_bytes ?? nodes.reduce((sum, node) => sum + node.rx_bytes, 0))}
          </dd>
        </div>
        <div>
          <dt className="text-xs text-muted">Sent</dt>
          <dd className="tabular-nums">
            {bytes(shown?.tx_bytes ?? nodes.reduce((sum, node) => sum + node.tx_bytes, 0))}
          </dd>
        </div>
      </dl>
    </div>
  )
}

function Line({ from, to, chosen }: { readonly from: Place; readonly to: Place; readonly chosen: string | undefined }) {
  const touches = chosen === from.node.host_id || chosen === to.node.host_id
  const isGood = [from, to].every(({ node }) => colorOf(node.status) === 'var(--good)')
  return (
    <line
      x1={from.x}
      y1={from.y}
      x2={to.x}
      y2={to.y}
      stroke={touches ? 'var(--accent)' : 'var(--line-strong)'}
      strokeWidth={touches ? 2 : 1.25}
      {...(isGood ? {} : { strokeDasharray: '4 5' })}
    />
  )
}

function NodeTable({ nodes }: { readonly nodes: readonly MeshNode[] }) {
  return (
    <Table
      label="Mesh hosts"
      rows={nodes}
      keyOf={node => node.host_id}
      columns={[
        { title: 'Host', cell: node => <span className="font-medium">{node.name}</span> },
        { title: 'Status', cell: node => <Status status={node.status} /> },
        { title: 'Address', wideOnly: true, cell: node => <Mono>{node.address ?? '–'}</Mono> },
        { title: 'Endpoint', wideOnly: true, cell: node => <Mono>{node.endpoint ?? '–'}</Mono> },
        { title: 'Handshake', at: node => node.last_handshake_at },
        {
          title: 'Latency',
          right: true,
          cell: node => (node.latency_ms === null ? '–' : `${node.latency_ms.toFixed(1)} ms`),
        },
      ]}
    />
  )
}
