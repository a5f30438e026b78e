import { recordName, recordValue } from './rules.ts'
import type * as wire from './schema.ts'
import type { Domain, DomainApp } from './store.ts'

export const domainView = (domain: Domain, app: Pick<DomainApp, 'hostname'>): wire.Domain => ({
  id: domain.id,
  app_id: domain.appId,
  name: domain.name,
  status: domain.state,
  message: domain.message,
  records: [
    {
      type: 'TXT',
      name: recordName(domain.name),
      value: recordValue(domain.token),
      purpose: 'Proves that the domain is yours. Keep the record: it is checked regularly.',
    },
    { type: 'CNAME', name: domain.name, value: app.hostname, purpose: 'Directs visitors to the app.' },
  ],
  certificate: certificateView(domain),
  checked_at: domain.checkedAt?.toISOString() ?? null,
  verified_at: domain.verifiedAt?.toISOString() ?? null,
  created_at: domain.createdAt.toISOString(),
})

const certificateView = ({
  certificateUntil: until,
  certificateMessage: message,
}: Domain): wire.Domain['certificate'] => ({
  status: until === null ? 'none' : until.getTime() > Date.now() ? 'valid' : 'expired',
  not_after: until?.toISOString() ?? null,
  message,
})
