import { useQuery } from '@tanstack/react-query'
import { KeySquare } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyLink } from '../../ui/row-actions.tsx'

const refresh = () => queryClient.invalidateQueries({ queryKey: ['ssh-keys'] })

export function SshKeys() {
  const keys = useQuery(queries.sshKeys())
  return (
    <ListCard
      title="SSH keys"
      lead="Used for SSH tunnels to your databases."
      create={<Add />}
      query={keys}
      nothing={{
        icon: KeySquare,
        title: 'No keys',
        text: 'Add the public key of your computer, usually ~/.ssh/id_ed25519.pub, to connect to databases through a tunnel.',
      }}
      label="SSH keys"
      keyOf={key => key.id}
      columns={[
        {
          title: 'Key',
          cell: key => (
            <div className="min-w-0">
              <p className="font-medium">{key.name}</p>
              <Mono className="block max-w-48 truncate text-muted sm:max-w-md">{key.fingerprint}</Mono>
            </div>
          ),
        },
        { title: 'Used', at: key => key.last_used_at },
      ]}
      actionsOf={key => (
        <DestroyLink
          name={key.name}
          verb="Remove"
          what="key"
          consequence="It can no longer open tunnels."
          send={async () => {
            await api.removeSshKey({ key_id: key.id })
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
      title="Add an SSH key"
      submit="Add key"
      trigger={open => <AddButton look="primary" text="Add key" onClick={open} />}
      send={async values => {
        await api.addSshKey({ body: { name: values.text('name'), public_key: values.text('public_key') } })
        await refresh()
      }}
      fields={
        <>
          <Field label="Name" name="name" required autoFocus maxLength={100} placeholder="My laptop" />
          <Field
            label="Public key"
            name="public_key"
            required
            mono
            placeholder="ssh-ed25519 AAAA… me@laptop"
            spellCheck={false}
          />
        </>
      }
    />
  )
}
