import type { Tx } from '../../db/db.ts'
import { notify } from '../notifications/index.ts'
import type { Deployment } from './store.ts'

const about = (d: Deployment) => ({
  projectId: d.projectId,
  entityName: d.appName,
  resourceId: d.id,
  route: `/apps/${d.appName}/deployments/${d.jobId}`,
})

/** Apps of the platform have an owner that tells what people should know. */
const isOfUser = (d: Deployment) => d.appOwner === 'user'

/** The name of an image that was built here is a digest, and tells nobody anything. */
const nameOf = (d: Deployment) =>
  !d.build ? d.image : d.gitCommitHash ? `Commit ${d.gitCommitHash.slice(0, 10)}` : 'What was built'

export const notifyLive = async (tx: Tx, d: Deployment) =>
  isOfUser(d) &&
  notify(tx, { ...about(d), kind: 'deployment.live', title: `${d.appName} is live`, body: `${nameOf(d)} serves now.` })

export const notifyFailed = async (tx: Tx, d: Deployment, reason: string) =>
  isOfUser(d) &&
  notify(tx, {
    ...about(d),
    kind: 'deployment.failed',
    title: `Deployment of ${d.appName} failed`,
    body:
      d.activeDeploymentId && d.activeDeploymentId !== d.id
        ? `${reason}\nThe version before it goes on serving.`
        : reason,
  })
