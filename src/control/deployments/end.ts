import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { announceById } from './announce.ts'
import * as store from './store.ts'

/** Marks the deployment for deletion and ensures that a workflow takes it down; idempotent. */
export async function removeDeployment(tx: Tx, id: string): Promise<void> {
  await store.desired(tx, id, 'deleted')
  await takeDown(tx, id)
}

/** Ends a deployment that still waits for its build, because a newer deployment supersedes it. */
export async function supersedeDeployment(tx: Tx, id: string): Promise<void> {
  await store.end(tx, id, 'superseded')
  await announceById(tx, id)
  await poke(tx, 'deployment', id)
}

/**
 * Ensures that a workflow takes the deployment down. A finished deployment has no workflow, so one is created, which
 * removes whatever is left.
 */
export async function takeDown(tx: Tx, id: string): Promise<void> {
  const d = await store.byId(tx, id)
  if (d?.phase === null) await createWorkflow(tx, 'deployment', id, 'stopping', { deadlineMs: minutes(30) })
  else await poke(tx, 'deployment', id)
}
