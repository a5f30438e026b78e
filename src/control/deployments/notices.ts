/** Reports the end of a rollout to users: as a notification, and as an entry in the project's activity. */
import type { Tx } from '../../db/db.ts'
import type { AuditNote } from '../http/operation.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import { notify } from '../notifications/index.ts'
import type { Deployment } from './store.ts'

const about = (d: Deployment) => ({
  projectId: d.projectId,
  entityName: d.appName,
  resourceId: d.id,
  route: `/apps/${d.appName}/deployments/${d.jobId}`,
})

/**
 * Returns whether a user created the app. For apps of the platform, the feature that owns them sends its own
 * notifications.
 */
const isOfUser = (d: Deployment) => d.appOwner === 'user'

/**
 * Returns the name of the version for users, as in lists of deployments: for a built image the commit, because the
 * image's name is only a digest.
 */
const nameOf = (d: Deployment) =>
  !d.build ? d.image : d.gitCommitHash ? `Commit ${d.gitCommitHash.slice(0, 10)}` : 'Uploaded source'

export async function notifyLive(tx: Tx, d: Deployment): Promise<void> {
  if (!isOfUser(d)) return
  record(tx, d, { action: 'deployment.live', resourceType: 'deployment', details: { version: nameOf(d) } })
  await notify(tx, {
    ...about(d),
    kind: 'deployment.live',
    title: `${d.appName} is live`,
    body: `${nameOf(d)} now serves traffic.`,
  })
}

export function recordFinished(tx: Tx, d: Deployment): void {
  if (!isOfUser(d)) return
  record(tx, d, { action: 'deployment.finished', resourceType: 'deployment', details: { version: nameOf(d) } })
}

export async function notifyFailed(tx: Tx, d: Deployment, reason: string): Promise<void> {
  if (!isOfUser(d)) return
  record(tx, d, { action: 'deployment.failed', resourceType: 'deployment', details: { reason: causeOf(reason) } })
  await notify(tx, {
    ...about(d),
    kind: 'deployment.failed',
    title: `Deployment of ${d.appName} failed`,
    body:
      d.activeDeploymentId && d.activeDeploymentId !== d.id ? `${reason}\nThe previous version keeps serving.` : reason,
  })
}

/**
 * Returns the first line of the failure reason. The other lines contain output of the app, which may contain secrets,
 * and activity entries are never deleted.
 */
const causeOf = (reason: string) => (reason.split('\n', 1)[0] ?? '').replace(/ Last lines:$/, '').slice(0, 200)

/** Writes an activity entry without an account, because the platform ended the rollout. */
function record(tx: Tx, d: Deployment, note: AuditNote): void {
  const actor = { userId: unknownAccount, projectId: d.projectId, via: undefined, ip: undefined, requestId: undefined }
  writeAudit(tx, actor, { ...note, resourceId: d.id, details: { app: d.appName, ...note.details } })
}
