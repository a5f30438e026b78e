import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

export const DnsRecord = resource(
  'DnsRecord',
  {
    type: oneOf(['TXT', 'CNAME'], {
      description: 'The TXT record proves who owns the domain; the CNAME record leads visitors to the app.',
    }),
    name: text({
      description: 'Full name of the record, without a final dot.',
      examples: ['_mote-challenge.shop.example.com'],
    }),
    value: text({
      description: 'Text of the TXT record, or target of the CNAME record.',
      examples: ['mote-verification=11cd1e379462529ef2e893fdca4f1229'],
    }),
    purpose: text({
      description: 'Why the record is needed, for people.',
      examples: ['Proves that the domain is yours. Leave it there: it is looked at again.'],
    }),
  },
  { description: 'DNS record to set at the name servers of a domain.' },
)

const DomainCertificate = resource(
  'DomainCertificate',
  {
    status: oneOf(['none', 'valid', 'expired'], {
      description:
        '`none` until one is issued. Certificates are requested once the domain is verified, if the installation has a certificate authority, and renewed before they expire.',
      examples: ['valid'],
    }),
    not_after: nullable(
      dateTime({
        description: 'When the certificate expires; null without one.',
        examples: ['2026-06-12T09:26:53.000Z'],
      }),
    ),
    message: nullable(
      text({
        description: 'Why the last attempt to issue or renew failed; null if it succeeded or there was none.',
        examples: [null, 'The certificate authority could not reach the domain.'],
      }),
    ),
  },
  { description: 'TLS certificate that gateways use for the domain.' },
)

export const Domain = resource(
  'Domain',
  {
    id: uuid({ description: 'UUID of the domain. Paths refer to it by `name`.' }),
    app_id: uuid({ description: 'App that the domain leads to.' }),
    name: text({
      description: 'Host name in lower case; names in other scripts are converted to ASCII (Punycode).',
      examples: ['shop.example.com'],
    }),
    status: oneOf(['pending', 'verified', 'lost'], {
      description:
        '`pending`: the TXT record has not been found yet. `verified`: requests to the name reach the app. `lost`: it was verified, but the record is gone, and requests are no longer routed.',
      examples: ['verified'],
    }),
    message: nullable(
      text({
        description: 'Why the last DNS lookup did not verify the domain; null if it did, or before the first one.',
        examples: [null, 'There is no TXT record at _mote-challenge.shop.example.com yet.'],
      }),
    ),
    records: list(DnsRecord, { description: 'DNS records to set at the name servers of the domain.' }),
    certificate: DomainCertificate,
    checked_at: nullable(dateTime({ description: 'When the TXT record was last looked up; null if never.' })),
    verified_at: nullable(dateTime({ description: 'When the domain last became `verified`; null if never.' })),
    created_at: dateTime({ description: 'When the domain was added to the app.' }),
  },
  { description: 'Custom host name of an app.' },
)
export type Domain = Static<typeof Domain>

const shared = { tag: 'Domains', auth: 'bearer', project: 'selected', addition: true } as const
const app_name = text({ description: 'Name of the app, in the selected project.', examples: ['shop'] })
const params = Type.Object({ app_name })
const named = Type.Object({
  app_name,
  domain: text({
    maxLength: 300,
    description: 'Name of the domain, as the app lists it.',
    examples: ['shop.example.com'],
  }),
})

export const domainOperations = operations({
  listDomains: {
    method: 'GET',
    path: '/v1/apps/{app_name}/domains',
    summary: 'List domains of an app',
    description:
      'Lists the custom domains of an app by name, each with its status, its DNS records and its certificate. The host name that every app has is not among them.',
    ...shared,
    scope: 'read',
    params,
    list: { order: ['name'], filters: ['status'] },
    answer: list(Domain),
    items: [
      {
        id: 'getDomain',
        path: '/v1/apps/{app_name}/domains/{domain}',
        by: 'name',
        summary: 'Get a domain',
        description: 'Returns one custom domain of an app, without a new DNS lookup.',
      },
    ],
  },
  addDomain: {
    method: 'POST',
    path: '/v1/apps/{app_name}/domains',
    summary: 'Add a domain to an app',
    description:
      'Registers a custom domain and returns the DNS records to set. The TXT record is looked up regularly; once it is found, the domain is `verified`, requests to it reach the app, and a certificate is requested. Needs a plan with `custom_domains`; an app has at most 50 domains.',
    ...shared,
    scope: 'write',
    throttle: 'create',
    params,
    body: resource(
      'AddDomainRequest',
      {
        name: text({
          minLength: 1,
          maxLength: 300,
          description: 'Host name without wildcards, outside the domains of the installation.',
          examples: ['shop.example.com'],
        }),
      },
      { description: 'Host name to add to an app.' },
    ),
    answer: Domain,
  },
  verifyDomain: {
    method: 'POST',
    path: '/v1/apps/{app_name}/domains/{domain}/verify',
    summary: 'Verify a domain now',
    description:
      'Looks up the TXT record at once instead of at the next regular check and returns the domain as it is afterwards. A name that another app serves stays `pending` until that app gives it up.',
    ...shared,
    scope: 'write',
    throttle: 'create',
    params: named,
    answer: Domain,
  },
  deleteDomain: {
    method: 'DELETE',
    path: '/v1/apps/{app_name}/domains/{domain}',
    summary: 'Remove a domain from an app',
    description:
      'Deletes the domain and its certificate; requests to it are no longer routed. Its DNS records are yours to remove. The app stays reachable at its own host name.',
    ...shared,
    scope: 'write',
    params: named,
    answer: acknowledgement('deleted'),
  },
})
