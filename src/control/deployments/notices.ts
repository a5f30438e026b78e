import type { Tx } from '../../db/db.ts'
import { notify } from '../notifications/index.ts'
import type { Deployment } from './store.ts'

const about = (d: Deployment) => ({
  projectId: d.projectId,
  entityName: d.appName,
  resourceId: d.id,
  route: `/apps/${d.appName}/deployments/${d.jobId}`,
})

/** Platform apps have an owner that sends its own notifications. */
const isOfUser = (d: Deployment) => d.appOwner === 'user'

/** The name shown to users. The name of a built image is a digest, which means nothing to users. */
const nameOf = (d: Deployment) =>
  !d.build ? d.image : d.gitCommitHash ? `Commit ${d.gitCommitHash.slice(0, 10)}` : 'The new build'

export const notifyLive = async (tx: Tx, d: Deployment) =>
  isOfUser(d) &&
  notify(tx, {
    ...about(d),
    kind: 'deployment.live',
    title: `${d.appName} is live`,
    body: `${nameOf(d)} now serves traffic.`,
  })

export const notifyFailed = async (tx: Tx, d: Deployment, reason: string) =>
  isOfUser(d) &&
  notify(tx, {
    ...about(d),
    kind: 'deployment.failed',
    title: `Deployment of ${d.appName} failed`,
    body:
      d.activeDeploymentId && d.activeDeploymentId !== d.id ? `${reason}\nThe previous version keeps serving.` : reason,
  })
