import { useQuery } from '@tanstack/react-query'
import { Container } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries, refreshAll } from '../api/queries.ts'
import { Field } from '../ui/form.tsx'
import { OwnedList } from '../ui/owned-list.tsx'

/** Credentials of the selected project for image registries. */
export function Registries() {
  const all = useQuery(queries.registryCredentials())
  return (
    <OwnedList
      title="Image registries"
      lead="Used to pull private images for VMs of this project, and for nothing else."
      query={all}
      refresh={() => refreshAll('registry-credentials')}
      nothing={{
        icon: Container,
        title: 'No registries',
        text: 'Add a user name and a token with read access, to deploy private images.',
      }}
      keyOf={one => one.host}
      heading="Registry"
      nameOf={one => one.host}
      detailOf={one => one.username}
      columns={[{ title: 'Last changed', at: one => one.updated_at }]}
      add={{
        text: 'Add registry',
        title: 'Sign in to a registry',
        submit: 'Save',
        fields: <RegistryFields />,
        send: values =>
          api.putRegistryCredential({
            body: {
              host: values.text('host').trim(),
              username: values.text('username'),
              password: values.text('password'),
            },
          }),
      }}
      remove={{
        verb: 'Remove',
        what: 'registry',
        consequence: 'Its private images can no longer be pulled. Running VMs are not affected.',
        send: one => api.deleteRegistryCredential({ host: one.host }),
      }}
    />
  )
}

const RegistryFields = () => (
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
)
