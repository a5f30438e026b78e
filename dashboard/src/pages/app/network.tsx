import type { SecurityRule } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Globe, Plus, ShieldCheck, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { addressOf } from '../../api/settings.ts'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { Table } from '../../ui/table.tsx'
import { useApp } from './use-app.ts'

export function Network() {
  const app = useApp()
  const rules = useQuery(queries.rules(app.name))
  return (
    <div className="space-y-4">
      <Card title="Domains" lead="Where people reach the app, through the gateway.">
        {app.hostname ? (
          <CopyBox text={addressOf(app.hostname)} label="address of the app" />
        ) : (
          <Empty icon={Globe} title="No hostname">
            The operator has set no domain for this installation (MOTE_DOMAIN).
          </Empty>
        )}
        <p className="mt-3 text-xs text-muted">
          The gateway connects to port {app.port} of the virtual machines. Domains of your own are not available on this
          server.
        </p>
      </Card>
      <Card
        flush
        title="Security rules"
        lead="For connections to the virtual machines from the private network. The first rule that fits decides."
        actions={rules.data && rules.data.length > 0 && <AddRule app_name={app.name} />}
      >
        <Loaded query={rules}>
          {all =>
            all.length === 0 ? (
              <Empty icon={ShieldCheck} title="No rules" action={<AddRule app_name={app.name} />}>
                Without rules, other machines of this project reach every port, and nobody else reaches any. The gateway
                always reaches port {app.port}.
              </Empty>
            ) : (
              <RuleTable app_name={app.name} rules={all} />
            )
          }
        </Loaded>
      </Card>
    </div>
  )
}

const portsOf = ({ port_start, port_end, protocol }: SecurityRule) => {
  if (protocol === 'icmp') return '–'
  return port_start === port_end ? String(port_start) : `${port_start}–${port_end}`
}

function RuleTable({ app_name, rules }: { readonly app_name: string; readonly rules: readonly SecurityRule[] }) {
  return (
    <Table
      label="Security rules, in the order they apply"
      rows={rules}
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
          title: '_Actions',
          right: true,
          cell: rule => (
            <Destroy
              name={`${rule.protocol} ${portsOf(rule)}`}
              what="rule"
              consequence="Running virtual machines follow within a second."
              send={async () => {
                await api.deleteSecurityRule({ app_name, rule_id: rule.id })
                await refreshAll('rules')
              }}
              trigger={open => (
                <Button
                  look="quiet"
                  size="smallIcon"
                  aria-label={`Delete rule ${rule.protocol} ${portsOf(rule)}`}
                  onClick={open}
                >
                  <Trash2 aria-hidden="true" size={14} />
                </Button>
              )}
            />
          ),
        },
      ]}
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
      trigger={open => (
        <Button size="small" onClick={open}>
          <Plus aria-hidden="true" size={13} /> Add rule
        </Button>
      )}
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
              <Field label="Last port" name="port_end" type="number" min={1} max={65_535} hint="Empty: the same." />
            </div>
          )}
          <Field
            label="Priority"
            name="priority"
            type="number"
            min={0}
            max={65_535}
            hint="Lower comes first. Empty: after the others."
          />
        </>
      }
    />
  )
}
