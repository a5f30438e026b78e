/** Operations on the credentials of a project for image registries. */
import { type Static, Type } from 'typebox'
import { registryHostPattern } from '../../lib/registry-host.ts'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, list, resource, text } from '../http/types.ts'

export const RegistryCredential = resource(
  'RegistryCredential',
  {
    host: text({
      description: 'Registry that the credential is sent to, as `host[:port]`; no other. Docker Hub is `docker.io`.',
      examples: ['ghcr.io'],
    }),
    username: text({ description: 'User name at the registry.', examples: ['ada'] }),
    updated_at: dateTime({ description: 'When the credential was last set.' }),
  },
  { description: 'User of a project at an image registry, without the password.' },
)
export type RegistryCredential = Static<typeof RegistryCredential>

const base = '/v1/registry-credentials'
const host = text({
  maxLength: 255,
  pattern: registryHostPattern,
  'x-mote-pattern': 'host[:port] as in names of images, such as ghcr.io or registry.example.com:5000',
  description: 'Registry as `host[:port]`; `docker.io` is Docker Hub.',
  examples: ['ghcr.io'],
})
const shared = { tag: 'Registries', auth: 'bearer', project: 'selected', addition: true } as const

export const registryOperations = operations({
  listRegistryCredentials: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: base,
    summary: 'List registry credentials',
    description: 'Lists the image registries that the project signs in to, by host, without passwords.',
    list: { order: ['host'], filters: ['username'] },
    items: [
      {
        id: 'getRegistryCredential',
        path: `${base}/{host}`,
        by: 'host',
        summary: 'Get a registry credential',
        description: 'Returns the user name of the project at one image registry.',
      },
    ],
    answer: list(RegistryCredential),
  },
  putRegistryCredential: {
    ...shared,
    throttle: 'create',
    scope: 'write',
    method: 'PUT',
    path: base,
    summary: 'Set a registry credential',
    description:
      'Stores a user name and a password or token, with which images of the registry are pulled for VMs of the project, and replaces what was there for the registry. It is not tried out: a deployment fails at once if the registry refuses it. A project has at most 50.',
    body: resource(
      'PutRegistryCredentialRequest',
      {
        host,
        username: text({
          minLength: 1,
          maxLength: 255,
          pattern: '^[^:\\s]+$',
          'x-mote-pattern': 'neither spaces nor colons',
          description: 'User name at the registry.',
          examples: ['ada'],
        }),
        password: text({
          minLength: 1,
          maxLength: 4096,
          description: 'Password or, better, a token that may only read; never shown again.',
          examples: ['ghp-example-token'],
        }),
      },
      { description: 'User name and password for an image registry.' },
    ),
    answer: RegistryCredential,
    fails: [409],
  },
  deleteRegistryCredential: {
    ...shared,
    scope: 'write',
    method: 'DELETE',
    path: `${base}/{host}`,
    summary: 'Delete a registry credential',
    description: 'Later pulls from the registry are anonymous. Running VMs go on.',
    params: Type.Object({ host }),
    answer: acknowledgement('deleted'),
  },
})
