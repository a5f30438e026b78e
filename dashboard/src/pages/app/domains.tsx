import type { App, Domain } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { RefreshCw } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { ActionButton } from '../../ui/action.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { messageOf, Notice } from '../../ui/states.tsx'
import { Badge, Status } from '../../ui/status.tsx'
import { Ago } from '../../ui/time.tsx'

export function Domains({ app }: { readonly app: App }) {
  const domains = useQuery({
    ...queries.domains(app.name),
    refetchInterval: ({ state }) => (state.data?.some(domain => domain.status === 'pending') ? 5000 : 60_000),
  })
  const billing = useQuery(queries.billing())
  const reason =
    billing.data?.plan_limits?.custom_domains === false
      ? 'The plan of this project does not include custom domains.'
      : undefined
  return (
    <Card title="Domains" lead="Addresses of the app on the gateway." actions={<Add app={app} reason={reason} />}>
      <div className="space-y-4">
        {app.url && <CopyBox text={app.url} label="address of the app" />}
        {domains.error && <Notice tone="bad">{messageOf(domains.error)}</Notice>}
        {domains.data?.map(domain => (
          <DomainBox key={domain.id} app={app} domain={domain} />
        ))}
      </div>
    </Card>
  )
}

function Add({ app, reason }: { readonly app: App; readonly reason: string | undefined }) {
  return (
    <FormDialog
      title="Add a domain"
      lead="Prove ownership with a DNS record. The certificate is issued automatically."
      submit="Add domain"
      trigger={open => <AddButton text="Add domain" reason={reason} onClick={open} />}
      send={async values => {
        await api.addDomain({ app_name: app.name, body: { name: values.text('name') } })
        await refreshAll('domains')
      }}
      fields={
        <Field label="Domain" name="name" required mono autoFocus placeholder="www.example.com" spellCheck={false} />
      }
    />
  )
}

function DomainBox({ app, domain }: { readonly app: App; readonly domain: Domain }) {
  const target = { app_name: app.name, domain: domain.name }
  const isVerified = domain.status === 'verified'
  return (
    <div className="rounded-lg border border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <span className="font-semibold break-all">{domain.name}</span>
        <Status status={domain.status} />
        <Badge tone={domain.certificate.status === 'valid' ? 'good' : 'calm'}>
          {domain.certificate.status === 'none' ? 'no certificate yet' : `certificate ${domain.certificate.status}`}
        </Badge>
        <span className="ml-auto inline-flex gap-1">
          <ActionButton
            look="quiet"
            size="small"
            act={async () => {
              await api.verifyDomain(target)
              await refreshAll('domains')
            }}
          >
            <RefreshCw aria-hidden="true" size={13} /> Check now
          </ActionButton>
          <DestroyIcon
            name={domain.name}
            what="domain"
            verb="Remove"
            consequence="It stops serving the app immediately."
            send={async () => {
              await api.deleteDomain(target)
              await refreshAll('domains')
            }}
          />
        </span>
      </div>
      {!isVerified && (
        <div className="mt-3 space-y-2">
          <p className="text-xs text-muted">Create these DNS records for the domain:</p>
          {domain.records.map(record => (
            <div key={`${record.type}${record.name}`} className="space-y-1">
              <p className="text-xs">
                <Badge>{record.type}</Badge> <span className="text-muted">{record.purpose}</span>
              </p>
              <p className="text-xs text-muted">Name</p>
              <CopyBox text={record.name} label={`name of the ${record.type} record`} />
              <p className="text-xs text-muted">Value</p>
              <CopyBox text={record.value} label={`value of the ${record.type} record`} />
            </div>
          ))}
          {domain.message && <Notice tone="warn">{domain.message}</Notice>}
        </div>
      )}
      {isVerified && domain.certificate.message && (
        <p className="mt-2 text-xs text-muted">{domain.certificate.message}</p>
      )}
      <p className="mt-2 text-xs text-faint">
        checked <Ago at={domain.checked_at} />
      </p>
    </div>
  )
}
