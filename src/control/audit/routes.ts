import type { Deps } from '../base/deps.ts'
import { feature } from '../http/operation.ts'
import { ListPart, partOf, windowOf } from '../http/paging.ts'
import { auditOperations } from './schema.ts'
import { auditPage, auditTotal } from './store.ts'
import { viewAudit } from './view.ts'

export const auditFeature = ({ db }: Pick<Deps, 'db'>) =>
  feature(auditOperations, {
    listAuditLogs: {
      read: async ({ caller, project, query, page }) => {
        const filter = {
          projectId: project.id,
          accountId: caller.boundProjectId === null && query.scope !== 'project' ? caller.userId : undefined,
          action: query.action,
          resourceType: query.resource_type,
        }
        const [rows, total] = await Promise.all([auditPage(db, filter, windowOf(page)), auditTotal(db, filter)])
        const { answer: shown, next } = partOf(page, rows)
        return new ListPart({ items: shown.map(viewAudit), total }, next)
      },
    },
  })
