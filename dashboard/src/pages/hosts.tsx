import type { Host } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Ellipsis, Server } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { queries, queryClient } from '../api/queries.ts'
import { attempt } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { Destroy } from '../ui/dialog.tsx'
import { type RowFilter, useRowFilter } from '../ui/filter.tsx'
import { mib, plural } from '../ui/format.ts'
import { Card, Page } from '../ui/layout.tsx'
import { Menu, MenuItem, MenuLine } from '../ui/menu.tsx'
import { Meter } from '../ui/meter.tsx'
import { Empty, Loaded } from '../ui/states.tsx'
import { Badge, Status } from '../ui/status.tsx'
import { Ago } from '../ui/time.tsx'

const refresh = () => queryClient.invalidateQueries({ queryKey: ['hosts'] })

const statusOf = (host: Host) => (host.draining ? 'draining' : host.cordoned ? 'cordoned' : host.status)
const filter: RowFilter<Host> = { list: 'hosts', find: 'Find a host', text: host => host.name, status: statusOf }

export function Hosts() {
  const hosts = useQuery(queries.hosts())
  const { bar, shows, nothing } = useRowFilter(filter, hosts.data)
  return (
    <Page title="Hosts" lead="The hosts that run virtual machines, and their capacity.">
      <Loaded query={hosts}>
        {all =>
          all.length === 0 ? (
            <Card>
              <Empty icon={Server} title="No hosts yet">
                Run mote agent on a computer. It appears here as a host within seconds.
              </Empty>
            </Card>
          ) : (
            <div className="space-y-4">
              <Capacity hosts={all} />
              <div className="flex flex-wrap items-center gap-3 empty:hidden">{bar}</div>
              {all.filter(shows).map(host => (
                <HostCard key={host.id} host={host} />
              ))}
              {!all.some(shows) && <p className="py-8 text-center text-muted">{nothing}</p>}
            </div>
          )
        }
      </Loaded>
    </Page>
  )
}

const sum = (hosts: readonly Host[], value: (host: Host) => number) =>
  hosts.reduce((total, host) => total + value(host), 0)

function Capacity({ hosts }: { readonly hosts: readonly Host[] }) {
  const takes = hosts.filter(host => host.status === 'up' && !host.cordoned)
  return (
    <Card
      title={`${plural(hosts.length, 'host')}, ${takes.length} accepting VMs`}
      lead={`${plural(
        sum(hosts, host => host.vms),
        'virtual machine',
      )} in all`}
    >
      <Meters
        vcpus={[sum(takes, host => host.used_vcpus), sum(takes, host => host.vcpus)]}
        memory={[sum(takes, host => host.used_memory_mib), sum(takes, host => host.memory_mib)]}
        disk={[sum(takes, host => host.used_disk_mib), sum(takes, host => host.disk_mib)]}
      />
    </Card>
  )
}

type Share = readonly [used: number, all: number]

function Meters({ vcpus, memory, disk }: { readonly vcpus: Share; readonly memory: Share; readonly disk: Share }) {
  return (
    <div className="grid gap-x-6 gap-y-3 sm:grid-cols-3">
      <Meter label="vCPUs reserved" value={vcpus[0]} max={vcpus[1]} text={`${vcpus[0]} of ${vcpus[1]}`} />
      <Meter label="Memory" value={memory[0]} max={memory[1]} text={`${mib(memory[0])} of ${mib(memory[1])}`} />
      <Meter label="Disk" value={disk[0]} max={disk[1]} text={`${mib(disk[0])} of ${mib(disk[1])}`} />
    </div>
  )
}

function HostCard({ host }: { readonly host: Host }) {
  return (
    <Card
      title={
        <span className="flex flex-wrap items-center gap-2">
          {host.name}
          <Status status={host.status} />
          {host.draining ? <Status status="draining" /> : host.cordoned && <Status status="cordoned" />}
        </span>
      }
      lead={`${host.arch} · ${host.network} network · version ${host.version}`}
      actions={<Verbs host={host} />}
    >
      <Meters
        vcpus={[host.used_vcpus, host.vcpus]}
        memory={[host.used_memory_mib, host.memory_mib]}
        disk={[host.used_disk_mib, host.disk_mib]}
      />
      {host.draining && <StillThere id={host.id} />}
      <div className="mt-4 flex flex-wrap items-center gap-x-4 gap-y-2 text-xs text-muted">
        <span className="tabular-nums">{plural(host.vms, 'VM')}</span>
        {host.strays > 0 && <Badge tone="warn">{plural(host.strays, 'stray')}</Badge>}
        <span>
          last heartbeat <Ago at={host.last_seen_at} />
        </span>
        {Object.keys(host.labels).length > 0 && (
          <ul className="flex flex-wrap gap-1.5" aria-label="Labels">
            {Object.entries(host.labels).map(([name, value]) => (
              <li key={name}>
                <Badge tone="calm">{`${name}=${value}`}</Badge>
              </li>
            ))}
          </ul>
        )}
        <ul className="flex flex-wrap gap-1.5" aria-label="Hypervisors">
          {host.hypervisors.map(({ name, available, detail }) => (
            <li key={name} title={detail}>
              <Badge tone={available ? 'good' : 'calm'}>{available ? name : `${name}: not available`}</Badge>
            </li>
          ))}
        </ul>
      </div>
    </Card>
  )
}

/** The drain report: VMs and volumes that are still on the host, and what each of them waits for. */
function StillThere({ id }: { readonly id: string }) {
  const host = useQuery(queries.host(id))
  const vms = (host.data?.leaving ?? []).map(vm => ({ ...vm, id: vm.vm_id, name: vm.app_name }))
  const volumes = (host.data?.leaving_volumes ?? []).map(volume => ({ ...volume, id: volume.volume_id }))
  const leaving = [...vms, ...volumes]
  if (leaving.length === 0) return null
  return (
    <ul className="mt-4 space-y-1.5 text-sm" aria-label="Still on this host">
      {leaving.map(({ id, state, name, reason }) => (
        <li key={id} className="flex flex-wrap items-baseline gap-x-2">
          <Status status={state} />
          <span className="font-medium">{name}</span>
          <span className="text-muted">{reason}</span>
        </li>
      ))}
    </ul>
  )
}

function Verbs({ host }: { readonly host: Host }) {
  const [asked, setAsked] = useState<'drain' | 'remove'>()
  const target = { host_id: host.id }
  const act = (verb: () => Promise<unknown>, done: string) => () => void attempt(verb, done).then(refresh)
  return (
    <>
      <Menu
        trigger={
          <Button size="smallIcon" look="quiet" aria-label={`Actions for ${host.name}`}>
            <Ellipsis aria-hidden="true" size={15} />
          </Button>
        }
      >
        {host.cordoned ? (
          <MenuItem onSelect={act(() => api.uncordonHost(target), `${host.name} accepts VMs again`)}>Uncordon</MenuItem>
        ) : (
          <MenuItem onSelect={act(() => api.cordonHost(target), `${host.name} accepts no new VMs`)}>Cordon</MenuItem>
        )}
        <MenuItem
          onSelect={() => setAsked('drain')}
          reason={
            host.draining
              ? 'The host is already being drained.'
              : host.status === 'up'
                ? undefined
                : `The host is ${host.status}.`
          }
        >
          Drain …
        </MenuItem>
        <MenuLine />
        <MenuItem
          danger
          onSelect={() => setAsked('remove')}
          reason={
            host.vms > 0 && host.status !== 'lost' ? 'The host runs virtual machines. Drain it first.' : undefined
          }
        >
          Remove …
        </MenuItem>
      </Menu>
      {asked === 'drain' && (
        <Destroy
          open
          name={host.name}
          verb="Drain"
          what="host"
          consequence={`Its VMs (${host.vms}) move to other hosts one by one, without downtime. No new VMs are placed on it.`}
          send={async () => {
            await api.drainHost(target)
            await refresh()
          }}
          onClose={() => setAsked(undefined)}
          trigger={() => null}
        />
      )}
      {asked === 'remove' && (
        <Destroy
          open
          name={host.name}
          verb="Remove"
          what="host"
          consequence="The host is removed permanently, and its id cannot join again."
          send={async () => {
            await api.removeHost({ ...target, query: { force: host.status === 'lost' } })
            await refresh()
          }}
          onClose={() => setAsked(undefined)}
          trigger={() => null}
        />
      )}
    </>
  )
}
