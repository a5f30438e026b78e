import { operations } from '../http/operation.ts'
import { bool, list, resource, text } from '../http/types.ts'
import { ReAttachRequest, ValidateRequest } from './bodies.ts'
import { ReAttachedTenant } from './resources.ts'

const TenantValidity = resource(
  'TenantValidity',
  {
    id: text({ description: 'Tenant, 32 hexadecimal digits.', examples: ['3f6d0c4f2a1097e08f003f6d0c4f2a10'] }),
    valid: bool({ description: 'Whether the generation is current: only then may the node delete files.' }),
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
      'A page server calls this when it starts. The generation of each of its tenants is raised, so that nodes that had the tenant before lose the right to it.',
    ...upcall,
    scope: 'write',
    body: ReAttachRequest,
    bodyRequired: false,
    answer: resource('ReAttachResponse', {
      tenants: list(ReAttachedTenant, { description: 'The tenants that are attached to the node now.' }),
    }),
    fails: [403, 404],
  },
  validateGenerations: {
    method: 'POST',
    path: '/validate',
    summary: 'Check the generations of tenants',
    description:
      'A page server calls this before it deletes remote files: it may delete them only with the current generation of a tenant.',
    ...upcall,
    scope: 'read',
    body: ValidateRequest,
    answer: resource('ValidateResponse', { tenants: list(TenantValidity, { description: 'The requested tenants.' }) }),
    unaudited: true,
    fails: [403],
  },
})
