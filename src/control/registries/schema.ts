/** Operations on the registry credentials of a project, and on the installation's own registry. */
import { type Static, Type } from 'typebox'
import { registryHostPattern } from '../../lib/registry-host.ts'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, list, nullable, resource, text, uint32 } from '../http/types.ts'

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

const RegistryToken = resource(
  'RegistryToken',
  {
    token: text({ description: 'JWT for the registry.', examples: ['eyJhbGciOiJFUzI1NiJ9.e30.c2ln'] }),
    access_token: text({
      description: 'The same token, as OAuth 2.0 names it.',
      examples: ['eyJhbGciOiJFUzI1NiJ9.e30.c2ln'],
    }),
    expires_in: uint32({ description: 'Lifetime in seconds.', examples: [300] }),
    issued_at: dateTime({ description: 'When it was issued.' }),
  },
  { description: 'Token for the registry of the installation.' },
)

export const registryOperations = operations({
  getRegistry: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: '/v1/registry',
    summary: 'Get the registry of the installation',
    description:
      'Returns where images of the project can be pushed to. Sign in there with any user name, and an access token as the password: `read` pulls, `deploy` pushes, `write` deletes.',
    answer: resource(
      'OwnRegistry',
      {
        host: nullable(
          text({
            description: 'Host of the registry; null if this installation has none.',
            examples: ['localhost:5000'],
          }),
        ),
        prefix: nullable(
          text({ description: 'What names of images of the project begin with.', examples: ['localhost:5000/acme'] }),
        ),
      },
      { description: 'Registry that belongs to the installation.' },
    ),
  },
  getRegistryToken: {
    ...shared,
    auth: 'none',
    project: 'none',
    proof: 'access token as the password of Basic authentication; grants only what it allows',
    scope: 'read',
    throttle: 'machine',
    method: 'GET',
    path: '/v1/registry/token',
    summary: 'Get a token for the registry',
    description:
      'For Docker and other clients of the registry, which are sent here by it (token authentication of the CNCF distribution). The token allows what is asked for in `scope` as far as the access token and the role in the project allow it; nothing of other projects. The answer is 404 if this installation has no registry.',
    query: Type.Object({
      service: Type.Optional(
        text({ maxLength: 255, description: 'Name of the registry.', examples: ['mote-registry'] }),
      ),
      scope: Type.Optional(
        Type.Array(text({ maxLength: 1024 }), {
          maxItems: 20,
          description: 'Wanted access, `repository:<project>/<name>:<pull,push,delete>`; may be repeated.',
          examples: [['repository:acme/shop:pull,push']],
        }),
      ),
    }),
    answer: RegistryToken,
    secretAnswer: true,
    fails: [401, 404],
  },
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
