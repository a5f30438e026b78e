import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import { setVmsWant } from '../vms/index.ts'
import * as store from './store.ts'

/**
 * Pauses or resumes a deployment. The transaction changes the VMs that exist now; the workflow handles VMs that are
 * created later. Idempotent.
 */
export async function setPaused(tx: Tx, id: string, want: 'running' | 'paused'): Promise<void> {
  const d = await store.byId(tx, id)
  if (!d || d.outcome !== null) return
  await store.desired(tx, id, want)
  const kept = d.vms.filter(vm => vm.want !== 'absent')
  await setVmsWant(
    tx,
    kept.map(vm => vm.id),
    want,
  )
  await poke(tx, 'deployment', id)
}
