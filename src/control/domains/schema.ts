import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { Acknowledgement, dateTime, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

export const DnsRecord = resource('DnsRecord', {
  type: oneOf(['TXT', 'CNAME']),
  name: text(),
  value: text(),
  purpose: text({ description: 'Why it is needed.' }),
})

export const Domain = resource('Domain', {
  id: uuid(),
  app_id: uuid(),
  name: text({ description: 'In ASCII; names in other scripts are converted.' }),
  status: text({
    description: '`pending` (record not found yet), `verified` (routed) or `lost` (the record has gone)',
  }),
  message: nullable(text({ description: 'What the last look at DNS missed.' })),
  records: list(DnsRecord, { description: 'To be set at the name servers of the domain.' }),
  certificate: resource('DomainCertificate', {
    status: text({ description: '`none`, `valid` or `expired`' }),
    not_after: nullable(dateTime()),
    message: nullable(text({ description: 'Why there is none, or no newer one.' })),
  }),
  checked_at: nullable(dateTime()),
  verified_at: nullable(dateTime()),
  created_at: dateTime(),
})
export type Domain = Static<typeof Domain>

const shared = { tag: 'Domains', auth: 'bearer', project: 'selected', addition: true } as const
const params = Type.Object({ app_name: text() })
const named = Type.Object({ app_name: text(), domain: text({ maxLength: 300 }) })

export const domainOperations = operations({
  listDomains: {
    method: 'GET',
    path: '/v1/apps/{app_name}/domains',
    summary: 'Domains of an app',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['name'], filters: ['status'] },
    answer: list(Domain),
    items: [{ id: 'getDomain', path: '/v1/apps/{app_name}/domains/{domain}', by: 'name', summary: 'One domain' }],
  },
  addDomain: {
    method: 'POST',
    path: '/v1/apps/{app_name}/domains',
    summary: 'Asks for a domain; it is routed once its TXT record is found',
    ...shared,
    scope: 'write',
    throttle: 'create',
    params,
    body: resource('AddDomainRequest', { name: text({ minLength: 1, maxLength: 300 }) }),
    answer: Domain,
  },
  verifyDomain: {
    method: 'POST',
    path: '/v1/apps/{app_name}/domains/{domain}/verify',
    summary: 'Looks for the TXT record now',
    ...shared,
    scope: 'write',
    throttle: 'create',
    params: named,
    answer: Domain,
  },
  deleteDomain: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/domains/{domain}',
    summary: 'Lets go of a domain; it stops being routed at once',
    ...shared,
    scope: 'write',
    params: named,
    answer: Acknowledgement,
  },
})
