import type { App } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { Cable } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { CopyBox } from '../../ui/copy.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Choice, Field, NumberField } from '../../ui/form.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'

/** TCP services: public ports that lead to ports of the app. */
export function Services({ app }: { readonly app: App }) {
  const app_name = app.name
  const services = useQuery(queries.services(app_name))
  return (
    <ListCard
      title="TCP services"
      lead="Connections to programs that do not use HTTP: over a separate public port, or over TLS on a shared port."
      create={<AddService app_name={app_name} />}
      query={services}
      nothing={{
        icon: Cable,
        title: 'No TCP services',
        text: 'Add one to reach a port of the app with another protocol, such as MQTT.',
      }}
      label="TCP services"
      keyOf={one => one.name}
      columns={[
        { title: 'Name', cell: one => <span className="font-medium">{one.name}</span> },
        { title: 'Port', cell: one => one.port },
        { title: 'TLS', cell: one => (one.tls === 'sni' ? 'ends at the gateway' : 'passed through') },
        { title: 'Address', cell: one => <CopyBox text={one.address} label={`address of ${one.name}`} /> },
      ]}
      actionsOf={one => (
        <DestroyIcon
          name={one.name}
          label={`Delete service ${one.name}`}
          what="service"
          consequence="Its connections are closed. Its public port may be given to another app."
          send={async () => {
            await api.deleteTcpService({ app_name, service_name: one.name })
            await refreshAll('services')
          }}
        />
      )}
    />
  )
}

function AddService({ app_name }: { readonly app_name: string }) {
  return (
    <FormDialog
      title="Add a TCP service"
      submit="Add service"
      trigger={open => <AddButton text="Add service" onClick={open} />}
      send={async values => {
        const tls = values.text('tls') === 'sni' ? 'sni' : 'none'
        const body = { port: values.number('port') ?? 0, tls } as const
        await api.putTcpService({ app_name, service_name: values.text('service_name'), body })
        await refreshAll('services')
      }}
      fields={
        <>
          <Field
            label="Name"
            name="service_name"
            required
            autoFocus
            maxLength={63}
            placeholder="mqtt"
            hint="An existing name changes the port of that service."
          />
          <NumberField label="Port in the VM" name="port" min={1} max={65_535} placeholder="1883" />
          <Choice label="Reached by" name="tls">
            <option value="none">A separate public port; bytes are passed on unchanged</option>
            <option value="sni">A shared port with TLS, selected by server name; the gateway terminates TLS</option>
          </Choice>
        </>
      }
    />
  )
}
