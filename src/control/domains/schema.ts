import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { acknowledgement, dateTime, list, nullable, oneOf, resource, text, uuid } from '../http/types.ts'

export const DnsRecord = resource(
  'DnsRecord',
  {
    type: oneOf(['TXT', 'CNAME'], {
      description:
        'Type of the record. The TXT record proves that the domain is yours; the CNAME record directs visitors to the app.',
    }),
    name: text({
      description: 'Full name of the record, without a final dot.',
      examples: ['_mote-challenge.shop.example.com'],
    }),
    value: text({
      description: 'Value of the record: the text of a TXT record, or the target of a CNAME record.',
      examples: ['mote-verification=11cd1e379462529ef2e893fdca4f1229'],
    }),
    purpose: text({
      description: 'Purpose of the record, as text for users.',
      examples: ['Proves that the domain is yours. Keep the record: it is checked regularly.'],
    }),
  },
  { description: 'A DNS record to create at the DNS provider of a domain.' },
)

const DomainCertificate = resource(
  'DomainCertificate',
  {
    status: oneOf(['none', 'valid', 'expired'], {
      description:
        'Status of the certificate; `none` until one is issued. If the installation has a certificate authority, a certificate is requested once the domain is verified, and renewed before it expires.',
      examples: ['valid'],
    }),
    not_after: nullable(
      dateTime({
        description: 'When the certificate expires; null if there is none.',
        examples: ['2026-06-12T09:26:53.000Z'],
      }),
    ),
    message: nullable(
      text({
        description:
          'Why the last attempt to issue or renew the certificate failed; null if it succeeded, or if there was none.',
        examples: [null, 'The certificate authority could not reach the domain.'],
      }),
    ),
  },
  { description: 'The TLS certificate that gateways use for the domain.' },
)

export const Domain = resource(
  'Domain',
  {
    id: uuid({ description: 'UUID of the domain. Paths refer to it by `name`.' }),
    app_id: uuid({ description: 'Id of the app that serves the domain.' }),
    name: text({
      description: 'Host name in lower case; internationalized names are converted to ASCII (Punycode).',
      examples: ['shop.example.com'],
    }),
    status: oneOf(['pending', 'verified', 'lost'], {
      description:
        '`pending`: the TXT record has not been found yet. `verified`: requests to the domain are routed to the app. `lost`: the domain was verified, but its TXT record is gone, so requests are no longer routed.',
      examples: ['verified'],
    }),
    message: nullable(
      text({
        description: 'Why the last DNS lookup did not verify the domain; null if it did, or before the first lookup.',
        examples: [null, 'There is no TXT record at _mote-challenge.shop.example.com yet.'],
      }),
    ),
    records: list(DnsRecord, { description: 'DNS records to create at the DNS provider of the domain.' }),
    certificate: DomainCertificate,
    checked_at: nullable(dateTime({ description: 'When the TXT record was last looked up; null if never.' })),
    verified_at: nullable(dateTime({ description: 'When the domain last became `verified`; null if never.' })),
    created_at: dateTime({ description: 'When the domain was added to the app.' }),
  },
  { description: 'A custom host name of an app.' },
)
export type Domain = Static<typeof Domain>

const shared = { tag: 'Domains', auth: 'bearer', project: 'selected', addition: true } as const
const app_name = text({ description: 'Name of the app, in the selected project.', examples: ['shop'] })
const params = Type.Object({ app_name })
const named = Type.Object({
  app_name,
  domain: text({
    maxLength: 300,
    description: 'Host name of the domain, from the list of domains.',
    examples: ['shop.example.com'],
  }),
})

export const domainOperations = operations({
  listDomains: {
    method: 'GET',
    path: '/v1/apps/{app_name}/domains',
    summary: 'List domains of an app',
    description:
      'Lists the custom domains of an app by name, each with its status, DNS records and certificate. The list does not include the host name that the installation gives to every app.',
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
      'Registers a custom domain and returns the DNS records to create. The TXT record is looked up regularly. Once it is found, the domain is `verified`, requests to it are routed to the app, and a certificate is requested. Requires a plan with `custom_domains`. An app can have at most 50 domains.',
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
          description: 'Host name without wildcards. It must not be in a domain of the installation.',
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
      'Looks up the TXT record at once instead of at the next regular check, and returns the resulting state of the domain. A domain that another app serves stays `pending` until it is removed from that app.',
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
      'Deletes the domain and its certificate; requests to it are no longer routed. Its DNS records are not removed: delete them at the DNS provider. The app stays reachable at its default host name.',
    ...shared,
    scope: 'write',
    params: named,
    answer: acknowledgement('deleted'),
  },
})
