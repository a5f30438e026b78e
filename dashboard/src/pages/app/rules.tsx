import type { App, SecurityRule } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { ShieldCheck } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { Badge } from '../../ui/status.tsx'

const portsOf = ({ port_start, port_end, protocol }: SecurityRule) => {
  if (protocol === 'icmp') return '–'
  return port_start === port_end ? String(port_start) : `${port_start}–${port_end}`
}

export function Rules({ app }: { readonly app: App }) {
  const app_name = app.name
  const rules = useQuery({
    ...queries.rules(app_name),
    refetchInterval: ({ state }) => (state.data?.some(rule => !rule.enforced) ? 1500 : 30_000),
  })
  return (
    <ListCard
      title="Security rules"
      lead="Firewall for connections to and from the virtual machines. The first matching rule applies."
      create={<AddRule app_name={app_name} />}
      query={rules}
      nothing={{
        icon: ShieldCheck,
        title: 'No rules',
        text: `Without rules, other VMs of this project can reach every port, and nothing else can. The gateway can always reach port ${app.port}.`,
      }}
      label="Security rules, in the order they apply"
      keyOf={rule => rule.id}
      columns={[
        { title: 'Priority', cell: rule => <span className="text-muted">{rule.priority}</span> },
        {
          title: 'Action',
          cell: rule => <Badge tone={rule.action === 'allow' ? 'good' : 'bad'}>{rule.action}</Badge>,
        },
        { title: 'Protocol', cell: rule => rule.protocol.toUpperCase() },
        { title: 'Ports', cell: portsOf },
        {
          title: 'Remote address',
          wideOnly: true,
          cell: rule => (
            <span>
              {rule.direction === 'outbound' ? 'to' : 'from'} <Mono>{rule.cidr ?? 'everywhere'}</Mono>
            </span>
          ),
        },
        {
          title: 'Applied',
          wideOnly: true,
          cell: rule => (
            <span title={rule.reason ?? undefined}>
              <Badge tone={rule.enforced ? 'good' : 'warn'}>{rule.enforced ? 'yes' : 'not yet'}</Badge>
            </span>
          ),
        },
      ]}
      actionsOf={rule => (
        <DestroyIcon
          name={`${rule.protocol} ${portsOf(rule)}`}
          label={`Delete rule ${rule.protocol} ${portsOf(rule)}`}
          what="rule"
          consequence="Takes effect on running virtual machines within a second."
          send={async () => {
            await api.deleteSecurityRule({ app_name, rule_id: rule.id })
            await refreshAll('rules')
          }}
        />
      )}
    />
  )
}

const protocols = ['tcp', 'udp', 'icmp', 'any'] as const

function AddRule({ app_name }: { readonly app_name: string }) {
  const [protocol, setProtocol] = useState<string>('tcp')
  const hasPorts = protocol === 'tcp' || protocol === 'udp'
  return (
    <FormDialog
      title="Add a rule"
      submit="Add rule"
      trigger={open => <AddButton text="Add rule" onClick={open} />}
      send={async values => {
        await api.createSecurityRule({
          app_name,
          body: {
            protocol: protocols.find(one => one === values.text('protocol')) ?? 'tcp',
            action: values.text('action') === 'deny' ? 'deny' : 'allow',
            port_start: hasPorts ? (values.number('port_start') ?? 0) : 0,
            port_end: hasPorts
              ? (values.number('port_end') ?? values.number('port_start') ?? 0)
              : protocol === 'any'
                ? 65_535
                : 0,
            direction: values.text('direction') === 'outbound' ? 'outbound' : 'inbound',
            cidr: values.optional('cidr'),
            priority: values.number('priority'),
          },
        })
        await refreshAll('rules')
      }}
      fields={
        <>
          <div className="grid grid-cols-2 gap-3">
            <Choice label="Action" name="action" defaultValue="allow">
              <option value="allow">Allow</option>
              <option value="deny">Deny</option>
            </Choice>
            <Choice
              label="Protocol"
              name="protocol"
              value={protocol}
              onChange={event => setProtocol(event.target.value)}
            >
              {protocols.map(name => (
                <option key={name} value={name}>
                  {name.toUpperCase()}
                </option>
              ))}
            </Choice>
          </div>
          {hasPorts && (
            <div className="grid grid-cols-2 gap-3">
              <Field label="First port" name="port_start" type="number" min={1} max={65_535} required />
              <Field
                label="Last port"
                name="port_end"
                type="number"
                min={1}
                max={65_535}
                hint="Empty: same as first port."
              />
            </div>
          )}
          <div className="grid grid-cols-2 gap-3">
            <Choice label="Direction" name="direction" defaultValue="inbound">
              <option value="inbound">Inbound</option>
              <option value="outbound">Outbound</option>
            </Choice>
            <Field label="Remote address" name="cidr" mono placeholder="10.0.0.0/8" hint="Empty: any address." />
          </div>
          <Field
            label="Priority"
            name="priority"
            type="number"
            min={0}
            max={65_535}
            hint="Lower numbers apply first. Empty: after the other rules."
          />
        </>
      }
    />
  )
}
