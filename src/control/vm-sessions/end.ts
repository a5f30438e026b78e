/** Records how a session ended, with its duration in the audit log. */
import type { Db } from '../../db/db.ts'
import { writeAudit } from '../audit/index.ts'
import * as store from './store.ts'

/**
 * Records the end of a session; does nothing if the end is already recorded.
 * @param code exit code or signal number; null if unknown
 */
export async function recordEnd(
  db: Db,
  id: string,
  { outcome, code }: { readonly outcome: store.Outcome; readonly code: number | null },
): Promise<void> {
  await db.tx(async tx => {
    const row = await store.end(tx, id, outcome, code)
    if (!row) return
    const { accountId: userId, projectId, deploymentId, vmId, program, openedAt, endedAt } = row
    const seconds = Math.round(((endedAt ?? openedAt).getTime() - openedAt.getTime()) / 1000)
    writeAudit(
      tx,
      { userId, projectId, via: undefined, ip: undefined, requestId: undefined },
      {
        action: 'vm.session_ended',
        resourceType: 'deployment',
        resourceId: deploymentId,
        details: { session_id: id, vm_id: vmId, program, outcome, code, seconds },
      },
    )
  })
}
