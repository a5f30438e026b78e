/** Operations on the registry credentials of a project, and on the installation's own registry. */
import { type Static, Type } from 'typebox'
import { registryHostPattern } from '../../lib/registry-host.ts'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, list, nullable, resource, text, uint32 } from '../http/types.ts'

export const RegistryCredential = resource(
  'RegistryCredential',
  {
    host: text({
      description:
        'Registry as `host[:port]`, the only one to which the credential is sent. Docker Hub is `docker.io`.',
      examples: ['ghcr.io'],
    }),
    username: text({ description: 'User name at the registry.', examples: ['ada'] }),
    updated_at: dateTime({ description: 'When the credential was last set.' }),
  },
  { description: 'The credential of a project for an image registry, without the password.' },
)
export type RegistryCredential = Static<typeof RegistryCredential>

const base = '/v1/registry-credentials'
const host = text({
  maxLength: 255,
  pattern: registryHostPattern,
  'x-mote-pattern': 'host[:port] as in names of images, such as ghcr.io or registry.example.com:5000',
  description: 'Registry as `host[:port]`. Docker Hub is `docker.io`.',
  examples: ['ghcr.io'],
})
const shared = { tag: 'Registries', auth: 'bearer', project: 'selected', addition: true } as const

const RegistryToken = resource(
  'RegistryToken',
  {
    token: text({ description: 'JWT for the registry.', examples: ['eyJhbGciOiJFUzI1NiJ9.e30.c2ln'] }),
    access_token: text({
      description: 'The same token, under the name that OAuth 2.0 uses.',
      examples: ['eyJhbGciOiJFUzI1NiJ9.e30.c2ln'],
    }),
    expires_in: uint32({ description: 'Lifetime of the token in seconds.', examples: [300] }),
    issued_at: dateTime({ description: 'When the token was issued.' }),
  },
  { description: 'A token for the registry of the installation.' },
)

export const registryOperations = operations({
  getRegistry: {
    ...shared,
    scope: 'read',
    method: 'GET',
    path: '/v1/registry',
    summary: 'Get the registry of the installation',
    description:
      'Returns the registry to which images of the project can be pushed. Sign in to it with any user name, and an access token as the password. Pulling requires the scope `read`, pushing `deploy`, and deleting `write`.',
    answer: resource(
      'OwnRegistry',
      {
        host: nullable(
          text({
            description:
              'Host name of the registry, with its port if necessary; null if this installation has no registry.',
            examples: ['localhost:5000'],
          }),
        ),
        prefix: nullable(
          text({ description: "Prefix of the project's image names.", examples: ['localhost:5000/acme'] }),
        ),
      },
      { description: 'The registry of the installation.' },
    ),
  },
  getRegistryToken: {
    ...shared,
    auth: 'none',
    project: 'none',
    proof: 'access token as the password of Basic authentication; the response grants only what this token allows',
    scope: 'read',
    throttle: 'machine',
    method: 'GET',
    path: '/v1/registry/token',
    summary: 'Get a token for the registry',
    description:
      'Issues a token to Docker and other registry clients, which the registry refers to this URL (token authentication of CNCF Distribution). The token grants the access requested in `scope`, as far as the access token and the role in the project allow it. Responds with 404 if this installation has no registry.',
    query: Type.Object({
      service: Type.Optional(
        text({ maxLength: 255, description: 'Name of the registry.', examples: ['mote-registry'] }),
      ),
      scope: Type.Optional(
        Type.Array(text({ maxLength: 1024 }), {
          maxItems: 20,
          description: 'Requested access: `repository:<project>/<name>:<pull,push,delete>`. May be repeated.',
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
    description: 'Lists the registry credentials of the project by host, without passwords.',
    list: { order: ['host'], filters: ['username'] },
    items: [
      {
        id: 'getRegistryCredential',
        path: `${base}/{host}`,
        by: 'host',
        summary: 'Get a registry credential',
        description: 'Returns the credential of the project for one image registry, without the password.',
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
      'Stores the user name and the password or token with which images are pulled from the registry for VMs of the project. An existing credential for the registry is replaced. The credential is not checked: if the registry refuses it, deployments fail at once. A project can have at most 50 registry credentials.',
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
          description: 'Password or, better, a read-only token. It is never shown again.',
          examples: ['ghp-example-token'],
        }),
      },
      { description: 'A user name and password for an image registry.' },
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
    description: 'Deletes the credential. Later pulls from the registry are anonymous; running VMs are not affected.',
    params: Type.Object({ host }),
    answer: acknowledgement('deleted'),
  },
})
