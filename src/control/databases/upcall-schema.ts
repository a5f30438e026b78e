import { operations } from '../http/operation.ts'
import { bool, list, resource, text } from '../http/types.ts'
import { ReAttachRequest, ValidateRequest } from './bodies.ts'
import { ReAttachedTenant } from './resources.ts'

const TenantValidity = resource(
  'TenantValidity',
  {
    id: text({ description: 'Tenant, 32 hexadecimal digits.', examples: ['3f6d0c4f2a1097e08f003f6d0c4f2a10'] }),
    valid: bool({ description: 'Whether its generation is still the current one: only then may the node delete.' }),
  },
  { description: 'Whether a storage node still has the right to a tenant.' },
)

const upcall = {
  tag: 'Storage upcalls',
  auth: 'none',
  project: 'none',
  throttle: 'machine',
  proof: 'address in a storage network, not through a proxy; or the storage secret',
} as const

/** What a Neon page server asks its control plane (Neon RFC 025, `pageserver_api/src/upcall_api.rs`). */
export const upcallOperations = operations({
  reAttach: {
    method: 'POST',
    path: '/re-attach',
    summary: 'Attach the tenants of a storage node',
    description:
      'A page server calls this when it starts. The generation of each tenant that is attached to it is raised, so that nodes which had the tenant before lose their right to it.',
    ...upcall,
    scope: 'write',
    body: ReAttachRequest,
    bodyRequired: false,
    answer: resource('ReAttachResponse', {
      tenants: list(ReAttachedTenant, { description: 'The tenants that the node is to have now.' }),
    }),
    fails: [403, 404],
  },
  validateGenerations: {
    method: 'POST',
    path: '/validate',
    summary: 'Check the generations of tenants',
    description:
      'A page server calls this before it deletes remote files: only with the current generation of a tenant may it do so.',
    ...upcall,
    scope: 'read',
    body: ValidateRequest,
    answer: resource('ValidateResponse', { tenants: list(TenantValidity, { description: 'The same tenants.' }) }),
    unaudited: true,
    fails: [403],
  },
})
