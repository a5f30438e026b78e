import type { Deps } from '../deps.ts'
import { feature } from '../http/operation.ts'
import { pageOf } from '../http/paging.ts'
import { auditOperations } from './schema.ts'
import { auditPage, auditTotal } from './store.ts'
import { viewAudit } from './view.ts'

export const auditFeature = ({ db }: Pick<Deps, 'db'>) =>
  feature(auditOperations, {
    listAuditLogs: {
      read: async ({ caller, project, query }) => {
        const { limit, offset } = pageOf(query)
        const filter = {
          projectId: project.id,
          accountId: caller.boundProjectId === null ? caller.userId : undefined,
          action: query.action,
          resourceType: query.resource_type,
        }
        const [rows, total] = await Promise.all([auditPage(db, filter, limit, offset), auditTotal(db, filter)])
        return { items: rows.map(viewAudit), total }
      },
    },
  })
