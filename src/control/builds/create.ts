import { newId } from '../../lib/ids.ts'
import { hours } from '../../lib/duration.ts'
import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import type { Deps } from '../base/deps.ts'
import { type DeployBody, type DeployCall, deploy, supersedeDeployment } from '../deployments/index.ts'
import { builtRepository } from '../vms/index.ts'
import { ApiError, invalidField } from '../http/errors.ts'
import { buildSize, gitPlace, uploadDigest, uploadUrl } from './rules.ts'
import { assertVariablesExist } from './settings.ts'
import * as store from './store.ts'

export interface SourceApp {
  readonly id: string
  readonly name: string
  readonly port: number
  readonly desiredReplicas: number
  readonly gitUrl: string
  /** Branch to build; empty: the repository's default branch. */
  readonly gitBranch: string
  readonly gitSubmodules: boolean
  readonly scmInstallationId: number | null
}

/**
 * The commit to build, as far as it is known. Without any values, it is the head of the default branch when the build
 * fetches the source.
 */
export interface SourceCommit {
  readonly branch: string
  readonly hash: string
  readonly message: string
  /** Author of the commit; empty if the git host reported none. */
  readonly author: string
  /** True: the build uses exactly this commit. False: it uses the head of the branch when it fetches the source. */
  readonly isExact: boolean
}

const noSharedRegistry =
  'With several hosts, built images need a registry that all hosts can reach: start control planes with docker-registry installed and with MOTE_LISTEN and MOTE_PUBLIC_URL that hosts reach, or set MOTE_REGISTRY.'

export const newestCommit: SourceCommit = { branch: '', hash: '', message: '', author: '', isExact: false }

/**
 * Creates a deployment that waits for a build of the app's repository. Supersedes queued builds of the app together
 * with their deployments; a running build continues. The caller's transaction must hold the lock on the app.
 * @throws ApiError 400, 403 `plan_limit_exceeded`, 409, 503 `no_capacity`, as for every deployment
 */
export async function deployFromSource(
  deps: Pick<Deps, 'db' | 'config'>,
  call: DeployCall,
  tx: Tx,
  app: SourceApp,
  { body, commit: given = newestCommit }: { readonly body: DeployBody; readonly commit?: SourceCommit },
) {
  const commit = given.branch === '' ? { ...given, branch: app.gitBranch } : given
  await refuseUnreadable(tx, app)
  await assertVariablesExist(tx, app.id)
  if (builtRepository(deps.config, app.id, 2) === null && (await store.hostCount(tx)) > 1)
    throw new ApiError('invalid_state', noSharedRegistry)
  if (!body.dry_run)
    for (const old of await store.supersede(tx, app.id)) {
      await poke(tx, 'build', old.id)
      await supersedeDeployment(tx, old.deploymentId)
    }
  const buildId = newId()
  const answer = await deploy(deps, call, tx, app, { body, build: { buildId, commit } })
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

/**
 * Creates a deployment that waits for a build of an uploaded source. The caller has checked `digest` with `checkSource`
 * and `assertRetained`. @throws ApiError like `deployFromSource`
 */
export const deployFromUpload = (
  deps: Pick<Deps, 'db' | 'config'>,
  call: DeployCall,
  tx: Tx,
  app: SourceApp,
  { body, digest }: { readonly body: DeployBody; readonly digest: string },
) =>
  deployFromSource(
    deps,
    call,
    tx,
    { ...app, gitUrl: uploadUrl(digest), gitBranch: '', gitSubmodules: false, scmInstallationId: null },
    { body },
  )

async function refuseUnreadable(tx: Tx, { id, gitUrl }: SourceApp): Promise<void> {
  if (uploadDigest(gitUrl) !== undefined) return
  const place = gitPlace(gitUrl)
  if (!place) throw invalidField('git_url', 'must be an https or ssh address of a repository to build from')
  if (place.transport === 'ssh' && (await store.deployKeyHost(tx, id)) !== place.host)
    throw new ApiError(
      'invalid_state',
      `There is no deploy key for ${place.host}: create one with PUT /v1/apps/{app_name}/git-credential.`,
    )
}
