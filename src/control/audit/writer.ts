/** Writes audit rows, always in the transaction of the change they record. */
import { type Tx, statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import type { AuditNote, Caller } from '../http/operation.ts'
import type { AuditWriter } from '../http/ports.ts'

/** Account id of audit rows without an account, for example for a sign-in with an unknown e-mail address. */
export const unknownAccount = '00000000-0000-0000-0000-000000000000'

/** Who made the audited change, and from where. */
export interface AuditActor {
  readonly userId: string
  readonly projectId: string | undefined
  readonly via: Caller['via'] | undefined
  readonly ip: string | undefined
  readonly requestId: string | undefined
}

const insertAudit = statement(
  'audit.insert',
  `INSERT INTO audit_log
     (id, account_id, project_id, action, resource_type, resource_id, details, ip_address, credential, request_id)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
)

export function writeAudit(tx: Tx, actor: AuditActor, note: AuditNote): void {
  tx.atCommit(insertAudit, [
    newId(),
    actor.userId,
    actor.projectId ?? null,
    note.action,
    note.resourceType,
    note.resourceId ?? null,
    { ...note.details },
    actor.ip ?? null,
    credentialOf(actor.via),
    actor.requestId ?? null,
  ])
}

/** Returns the credential of an audit row as `session:<id>` or `pat:<id>`; null without a credential. */
function credentialOf(via: Caller['via'] | undefined): string | null {
  if (!via) return null
  return via.kind === 'session' ? `session:${via.sessionId}` : `pat:${via.patId}`
}

/** The HTTP layer's interface to the audit log. */
export const auditWriter: AuditWriter = {
  write(tx, entries) {
    for (const { userId, projectId, via, origin, action, resourceType, resourceId, details } of entries) {
      const note = {
        action,
        resourceType,
        ...(resourceId === undefined ? {} : { resourceId }),
        ...(details && { details }),
      }
      writeAudit(tx, { userId, projectId, via, ip: origin.ip, requestId: origin.requestId }, note)
    }
  },
}
