import { useQuery } from '@tanstack/react-query'
import { KeySquare } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { Field } from '../../ui/form.tsx'
import { OwnedList } from '../../ui/owned-list.tsx'

export function SshKeys() {
  const keys = useQuery(queries.sshKeys())
  return (
    <OwnedList
      title="SSH keys"
      lead="Used for shells in your apps (mote ssh) and for SSH tunnels to your databases."
      query={keys}
      refresh={() => queryClient.invalidateQueries({ queryKey: ['ssh-keys'] })}
      nothing={{
        icon: KeySquare,
        title: 'No keys',
        text: 'Add the public key of your computer, usually ~/.ssh/id_ed25519.pub, to open shells and tunnels with it.',
      }}
      keyOf={key => key.id}
      heading="Key"
      nameOf={key => key.name}
      detailOf={key => key.fingerprint}
      columns={[{ title: 'Last used', at: key => key.last_used_at }]}
      add={{
        text: 'Add key',
        look: 'primary',
        title: 'Add an SSH key',
        submit: 'Add key',
        fields: <KeyFields />,
        send: values => api.addSshKey({ body: { name: values.text('name'), public_key: values.text('public_key') } }),
      }}
      remove={{
        verb: 'Remove',
        what: 'key',
        consequence: 'It can no longer open shells and tunnels.',
        send: key => api.removeSshKey({ key_id: key.id }),
      }}
    />
  )
}

const KeyFields = () => (
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
)
