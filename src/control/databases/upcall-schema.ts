import { operations } from '../http/operation.ts'
import { bool, list, resource, text } from '../http/types.ts'
import { ReAttachRequest, ValidateRequest } from './bodies.ts'
import { ReAttachedTenant } from './resources.ts'

const TenantValidity = resource(
  'TenantValidity',
  {
    id: text({ description: 'Tenant id, 32 hexadecimal digits.', examples: ['3f6d0c4f2a1097e08f003f6d0c4f2a10'] }),
    valid: bool({
      description: 'Whether the generation is current. Only then may the storage node delete remote files.',
    }),
  },
  { description: 'Whether a storage node still owns a tenant.' },
)

const upcall = {
  tag: 'Storage upcalls',
  auth: 'none',
  project: 'none',
  throttle: 'machine',
  proof: 'address in a storage network, not through a proxy; or the storage secret',
} as const

/** Requests of a Neon page server to its control plane (Neon RFC 025, `pageserver_api/src/upcall_api.rs`). */
export const upcallOperations = operations({
  reAttach: {
    method: 'POST',
    path: '/re-attach',
    summary: 'Attach the tenants of a storage node',
    description:
      'A page server sends this request when it starts. The generation of each of its tenants is increased, so that nodes to which a tenant was attached before can no longer write to it.',
    ...upcall,
    scope: 'write',
    body: ReAttachRequest,
    bodyRequired: false,
    answer: resource('ReAttachResponse', {
      tenants: list(ReAttachedTenant, { description: 'Tenants that are attached to the storage node.' }),
    }),
    fails: [403, 404],
  },
  validateGenerations: {
    method: 'POST',
    path: '/validate',
    summary: 'Check the generations of tenants',
    description:
      'A page server sends this request before it deletes remote files: it may delete them only if it has the current generation of the tenant.',
    ...upcall,
    scope: 'read',
    body: ValidateRequest,
    answer: resource('ValidateResponse', {
      tenants: list(TenantValidity, { description: 'The tenants of the request, with the validity of each.' }),
    }),
    unaudited: true,
    fails: [403],
  },
})
