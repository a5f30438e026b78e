/** The active deployment of an app, to which its route leads, and the app's scale state. */
import { type Tx, statement } from '../../db/db.ts'
import type { Deployment } from './store.ts'

// The app is locked in a separate statement. If the UPDATE itself waited for the row, PostgreSQL would re-check the row
// but not the subquery that compares the rollouts: of two rollouts that become healthy together, the earlier one could
// win.
const lockAppOf = statement(
  'deployments.lockApp',
  `SELECT a.id FROM app a JOIN deployment d ON d.app_id = a.id WHERE d.id = $1 FOR NO KEY UPDATE OF a`,
)
// Switches the app's route to the deployment: at most one deployment is active, and of two healthy ones the later
// rollout wins.
const activate = statement(
  'deployments.activate',
  `UPDATE app a SET active_deployment_id = d.id, scale_state = 'active', scale_changed_at = now()
   FROM deployment d
   WHERE d.id = $1 AND a.id = d.app_id AND d.want IN ('running', 'paused') AND d.outcome IS NULL
     AND NOT EXISTS (SELECT 1 FROM deployment other WHERE other.id = a.active_deployment_id AND other.rollout > d.rollout)`,
)
const moveScaleState = statement(
  'deployments.moveScale',
  `UPDATE app SET scale_state = $3, scale_changed_at = now() WHERE id = $1 AND scale_state = $2`,
)
const deactivate = statement(
  'deployments.deactivate',
  `UPDATE app SET active_deployment_id = NULL, scale_state = 'active', scale_changed_at = now() WHERE id = $1 AND active_deployment_id = $2`,
)

/** Makes the deployment active. Returns false when a later rollout is already active. */
export async function makeActive(tx: Tx, id: string): Promise<boolean> {
  await tx.run(lockAppOf, [id])
  return (await tx.run(activate, [id])) === 1
}
/** Changes the app's scale state. Returns false when the current state is not `from`. */
export const moveScale = async (tx: Tx, appId: string, from: Deployment['scaleState'], to: Deployment['scaleState']) =>
  (await tx.run(moveScaleState, [appId, from, to])) === 1
export const clearActive = (tx: Tx, appId: string, id: string) => tx.run(deactivate, [appId, id])
