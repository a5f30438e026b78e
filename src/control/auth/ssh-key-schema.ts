/** Operations on the SSH keys of an account. */
import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, displayName, list, nullable, rawText, resource, text, uuid } from '../http/types.ts'
import { own } from './fields.ts'

export const SshKey = resource(
  'SshKey',
  {
    id: uuid({ description: 'Id of the key, needed to remove it.' }),
    name: text({ description: 'Label that the owner chose for the key.', examples: ['laptop'] }),
    fingerprint: text({
      description: 'SHA-256 fingerprint, as `ssh-keygen -l` prints it.',
      examples: ['SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA'],
    }),
    created_at: dateTime({ description: 'When the key was added.' }),
    last_used_at: nullable(dateTime({ description: 'When the key was last used for an SSH login; null if never.' })),
  },
  { description: 'A public key for SSH tunnels to databases and shells in VMs.' },
)
export type SshKey = Static<typeof SshKey>

export const sshKeyOperations = operations({
  listSshKeys: {
    addition: true,
    method: 'GET',
    path: '/v1/auth/ssh-keys',
    summary: 'List SSH keys',
    description:
      'Lists the SSH public keys of the account, newest first. They open tunnels to databases and shells in VMs of its projects.',
    ...own,
    scope: 'read',
    list: { order: ['-id'], filters: ['name'] },
    items: [
      {
        id: 'getSshKey',
        path: '/v1/auth/ssh-keys/{key_id}',
        by: 'id',
        summary: 'Get an SSH key',
        description: 'Returns the name and fingerprint of one public key of the account.',
      },
    ],
    answer: list(SshKey),
  },
  addSshKey: {
    addition: true,
    throttle: 'create',
    method: 'POST',
    path: '/v1/auth/ssh-keys',
    summary: 'Add an SSH key',
    description:
      'Registers a public key of the account. The matching private key then opens SSH tunnels to databases, and shells in VMs of apps, in projects where the account may write. An account can have at most 100 keys. Responds with 409 `name_taken` if the account already has the key.',
    ...own,
    scope: 'admin',
    body: resource(
      'AddSshKeyRequest',
      {
        name: displayName({ description: 'Label to recognize the key by.', examples: ['laptop'] }),
        public_key: rawText({
          maxLength: 8192,
          description:
            'The public key: the line in a file such as `id_ed25519.pub`. Ed25519, RSA and ECDSA keys are accepted.',
          examples: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f ada@laptop'],
        }),
      },
      { description: 'A public key and a name for it.' },
    ),
    answer: SshKey,
  },
  removeSshKey: {
    addition: true,
    method: 'DELETE',
    path: '/v1/auth/ssh-keys/{key_id}',
    summary: 'Remove an SSH key',
    description:
      'Deletes the key. It no longer opens tunnels, and tunnels that were opened with it end within seconds.',
    ...own,
    scope: 'admin',
    params: Type.Object({ key_id: uuid({ description: 'Id of the key, from the list of keys.' }) }),
    answer: acknowledgement('removed'),
  },
})
