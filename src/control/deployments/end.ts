import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { announceById } from './announce.ts'
import * as store from './store.ts'

/** Marks it for deletion and makes sure that a machine is there to take it down; idempotent. */
export async function removeDeployment(tx: Tx, id: string): Promise<void> {
  await store.desired(tx, id, 'deleted')
  await takeDown(tx, id)
}

/** A newer one replaces it before it was built. */
export async function supersedeDeployment(tx: Tx, id: string): Promise<void> {
  await store.end(tx, id, 'superseded')
  await announceById(tx, id)
  await poke(tx, 'deployment', id)
}

/** A deployment that is over has no machine any more; one is made so that whatever is left is released. */
export async function takeDown(tx: Tx, id: string): Promise<void> {
  const d = await store.byId(tx, id)
  if (d?.phase === null) await createWorkflow(tx, 'deployment', id, 'stopping', { deadlineMs: minutes(30) })
  else await poke(tx, 'deployment', id)
}
