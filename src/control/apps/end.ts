import type { Tx } from '../../db/db.ts'
import { createWorkflow } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { refreshRoute } from '../routing/index.ts'
import * as store from './store.ts'

/** Starts deleting an app and its workers; each has a workflow that removes everything in order. Idempotent. */
export async function startDeletingApp(tx: Tx, appId: string): Promise<void> {
  if (!(await store.startDeleting(tx, appId))) return
  await createWorkflow(tx, 'app', appId, 'emptying', { deadlineMs: minutes(30) })
  await refreshRoute(tx, appId)
  for (const id of await store.workersOf(tx, appId)) await startDeletingApp(tx, id)
}
