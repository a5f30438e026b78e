import { useQuery } from '@tanstack/react-query'
import { Container } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries, queryClient } from '../api/queries.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { Field } from '../ui/form.tsx'
import { Mono } from '../ui/layout.tsx'
import { ListCard } from '../ui/listing.tsx'
import { AddButton, DestroyLink } from '../ui/row-actions.tsx'

const refresh = () => queryClient.invalidateQueries({ queryKey: ['registry-credentials'] })

/** Registries that the selected project signs in to. */
export function Registries() {
  const all = useQuery(queries.registryCredentials())
  return (
    <ListCard
      title="Image registries"
      lead="Used to pull private images for VMs of this project, and for nothing else."
      create={<Add />}
      query={all}
      nothing={{
        icon: Container,
        title: 'No registries',
        text: 'Add a user name and a token that may read, to deploy private images.',
      }}
      label="Image registries"
      keyOf={one => one.host}
      columns={[
        {
          title: 'Registry',
          cell: one => (
            <div className="min-w-0">
              <p className="font-medium">{one.host}</p>
              <Mono className="block max-w-48 truncate text-muted sm:max-w-md">{one.username}</Mono>
            </div>
          ),
        },
        { title: 'Set', at: one => one.updated_at },
      ]}
      actionsOf={one => (
        <DestroyLink
          name={one.host}
          verb="Remove"
          what="registry"
          consequence="Its private images can no longer be pulled. Running VMs go on."
          send={async () => {
            await api.deleteRegistryCredential({ host: one.host })
            await refresh()
          }}
        />
      )}
    />
  )
}

function Add() {
  return (
    <FormDialog
      title="Sign in to a registry"
      submit="Save"
      trigger={open => <AddButton text="Add registry" onClick={open} />}
      send={async values => {
        const body = {
          host: values.text('host').trim(),
          username: values.text('username'),
          password: values.text('password'),
        }
        await api.putRegistryCredential({ body })
        await refresh()
      }}
      fields={
        <>
          <Field label="Registry" name="host" required autoFocus mono maxLength={255} placeholder="ghcr.io" />
          <Field label="User name" name="username" required maxLength={255} autoComplete="off" />
          <Field
            label="Password or token"
            name="password"
            type="password"
            required
            maxLength={4096}
            autoComplete="new-password"
          />
        </>
      }
    />
  )
}
