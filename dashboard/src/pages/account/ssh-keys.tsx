import { useQuery } from '@tanstack/react-query'
import { KeySquare, Plus } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { Card, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'

const refresh = () => queryClient.invalidateQueries({ queryKey: ['ssh-keys'] })

export function SshKeys() {
  const keys = useQuery(queries.sshKeys())
  return (
    <Card
      flush
      title="SSH keys"
      lead="Tunnels to your databases are opened with them."
      actions={keys.data && keys.data.length > 0 && <Add />}
    >
      <Loaded query={keys}>
        {all =>
          all.length === 0 ? (
            <Empty icon={KeySquare} title="No keys" action={<Add />}>
              Add the public key of your machine, usually ~/.ssh/id_ed25519.pub, to reach databases through a tunnel.
            </Empty>
          ) : (
            <Table
              label="SSH keys"
              rows={all}
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
                { title: 'Used', wideOnly: true, cell: key => <Ago at={key.last_used_at} /> },
                {
                  title: '_Actions',
                  right: true,
                  cell: key => (
                    <Destroy
                      name={key.name}
                      verb="Remove"
                      what="key"
                      consequence="No tunnel is opened with it any more."
                      send={async () => {
                        await api.removeSshKey({ key_id: key.id })
                        await refresh()
                      }}
                      trigger={open => (
                        <Button look="quiet" size="small" onClick={open} aria-label={`Remove ${key.name}`}>
                          Remove
                        </Button>
                      )}
                    />
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function Add() {
  return (
    <FormDialog
      title="Add an SSH key"
      submit="Add key"
      trigger={open => (
        <Button size="small" look="primary" onClick={open}>
          <Plus aria-hidden="true" size={13} /> Add key
        </Button>
      )}
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
