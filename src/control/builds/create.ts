import { newId } from '../../lib/ids.ts'
import { hours } from '../../lib/duration.ts'
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import type { Deps } from '../base/deps.ts'
import { type DeployBody, type DeployCall, deploy, supersedeDeployment } from '../deployments/index.ts'
import { ApiError, invalidField } from '../http/errors.ts'
import { buildSize, gitPlace, uploadDigest, uploadUrl } from './rules.ts'
import * as store from './store.ts'

export interface SourceApp {
  readonly id: string
  readonly name: string
  readonly port: number
  readonly desiredReplicas: number
  readonly gitUrl: string
  /** Empty: the default one. */
  readonly gitBranch: string
  readonly gitSubmodules: boolean
  readonly scmInstallationId: number | null
}

/** Which commit, as far as it is known already; empty: what the repository's default branch has when it is fetched. */
export interface SourceCommit {
  readonly branch: string
  readonly hash: string
  readonly message: string
  /** This very commit; else the newest that the branch has when it is fetched. */
  readonly isExact: boolean
}

export const newestCommit: SourceCommit = { branch: '', hash: '', message: '', isExact: false }

/**
 * A deployment of what the app's repository has: it waits for its build. Builds of the app that wait are superseded, with
 * their deployments; one that runs goes on. The transaction has locked the app.
 * @throws ApiError 400, 403 `plan_limit_exceeded`, 409, 503 `no_capacity`, as for every deployment
 */
export async function deployFromSource(
  deps: Pick<Deps, 'db' | 'config'>,
  call: DeployCall,
  tx: Tx,
  app: SourceApp,
  body: DeployBody,
  given: SourceCommit = newestCommit,
) {
  const commit = given.branch === '' ? { ...given, branch: app.gitBranch } : given
  await refuseUnreadable(tx, app)
  if (deps.config.registry === '' && (await store.hostCount(tx)) > 1)
    throw new ApiError(
      'invalid_state',
      'With several hosts a built image needs a registry that all of them reach: set MOTE_REGISTRY.',
    )
  if (!body.dry_run)
    for (const old of await store.supersede(tx, app.id)) {
      await poke(tx, 'build', old.id)
      await supersedeDeployment(tx, old.deploymentId)
    }
  const buildId = newId()
  const answer = await deploy(deps, call, tx, app, body, { buildId, commit })
  if (answer.deployment_id === '') return answer
  await store.insert(tx, {
    id: buildId,
    projectId: call.project.id,
    appId: app.id,
    deploymentId: answer.deployment_id,
    gitUrl: app.gitUrl,
    gitBranch: commit.branch,
    gitCommit: commit.isExact ? commit.hash : '',
    scmInstallationId: app.scmInstallationId,
    gitSubmodules: app.gitSubmodules,
    ...buildSize,
  })
  await createWorkflow(tx, 'build', buildId, 'queueing', { deadlineMs: hours(2) })
  return answer
}

/** A deployment of what was sent to this app, see `checkSource` and `assertRetained`. @throws as deployFromSource */
export const deployFromUpload = (
  deps: Pick<Deps, 'db' | 'config'>,
  call: DeployCall,
  tx: Tx,
  app: SourceApp,
  body: DeployBody,
  digest: string,
) =>
  deployFromSource(
    ...([deps, call, tx] as const),
    { ...app, gitUrl: uploadUrl(digest), gitBranch: '', gitSubmodules: false, scmInstallationId: null },
    body,
  )

async function refuseUnreadable(tx: Tx, { id, gitUrl }: SourceApp): Promise<void> {
  if (uploadDigest(gitUrl) !== undefined) return
  const place = gitPlace(gitUrl)
  if (!place)
    throw invalidField('git_url', 'is built from only over https or ssh; give such an address of the repository')
  if (place.transport === 'ssh' && (await store.deployKeyHost(tx, id)) !== place.host)
    throw new ApiError(
      'invalid_state',
      `There is no deploy key for ${place.host}: make one with PUT /v1/apps/{app_name}/git-credential.`,
    )
}
