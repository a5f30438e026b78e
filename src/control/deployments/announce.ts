import type { Tx } from '../../db/db.ts'
import { publishEvent } from '../events/index.ts'
import { type DeploymentStatus, statusOf } from './rules.ts'
import type { Deployment } from './store.ts'
import * as store from './store.ts'

/** Sends the deployment's current status to the event streams. */
export const announce = (d: Deployment) => (tx: Tx) => announceById(tx, d.id)

/**
 * Returns whether the last status sent to the event streams is still current. Each change of the status also pokes the
 * workflow, which then sends it.
 */
export const isReported = (d: Deployment) => d.announced === statusOf(d)

export async function announceById(tx: Tx, id: string): Promise<void> {
  const d = await store.byId(tx, id)
  if (d) await publishStatus(tx, d, statusOf(d))
}

export async function publishStatus(tx: Tx, d: Deployment, status: DeploymentStatus): Promise<void> {
  if (!(await store.announced(tx, d.id, status))) return
  publishEvent(tx, {
    projectId: d.projectId,
    kind: 'deployment.status',
    appId: d.appId,
    deploymentId: d.id,
    data: { job_id: d.jobId, app_name: d.appName, status, error_message: d.errorMessage },
  })
}
