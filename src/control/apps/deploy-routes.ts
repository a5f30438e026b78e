import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { assertRetained, checkSource, deployFromSource, deployFromUpload } from '../builds/index.ts'
import { type DeployBody, deploy } from '../deployments/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { prepareApp } from './create.ts'
import * as rules from './rules.ts'
import type { appOperations } from './schema.ts'
import * as store from './store.ts'

export const deployHandlers = (deps: Deps): Pick<Handlers<typeof appOperations>, 'deploy' | 'deployApp'> => ({
  deploy: {
    write: async call => {
      const { app_name: name, git_url } = call.body
      const create = prepareApp(deps, call.project, { name, git_url: git_url ?? '', port: call.body.port ?? null })
      return async tx => {
        const found = await store.lock(tx, call.project.id, name)
        if (!found && call.body.dry_run) throw notFound()
        const app = found ? await followRepository(tx, found, call.body) : await create(tx)
        return rollOut(deps, call, tx, app, call.body)
      }
    },
  },

  deployApp: {
    write: async call => {
      const upload = await sentSource(deps, call.project.id, call.params.app_name, call.body)
      return async tx => {
        const app = await store.lock(tx, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        return upload === undefined
          ? rollOut(deps, call, tx, app, call.body)
          : deployFromUpload(deps, call, tx, app, { body: call.body, digest: upload })
      }
    },
  },
})

/**
 * Returns the digest of the uploaded source that the request names, after checking that it still exists; undefined if
 * it names none.
 */
async function sentSource(
  { db, config }: Deps,
  projectId: string,
  name: string,
  { source, image }: { readonly source?: string | null; readonly image?: string | null },
): Promise<string | undefined> {
  if (source == null) return undefined
  if (image) throw invalidField('source', 'cannot be combined with an image; leave one of them out')
  const digest = checkSource(source)
  const app = await store.byName(db, projectId, name)
  if (!app) throw notFound()
  await assertRetained(config.sourceDir, app.id, digest)
  return digest
}

/** Deploys the named image, otherwise the app's repository, otherwise the image of the previous deployment. */
const rollOut = (deps: Deps, call: Parameters<typeof deploy>[1], tx: Tx, app: store.App, body: DeployBody) =>
  !body.image && app.gitUrl !== ''
    ? deployFromSource(deps, call, tx, app, { body })
    : deploy(deps, call, tx, app, { body })

/** Changes the app's repository to the one in the request. */
async function followRepository(
  tx: Tx,
  app: store.App,
  { git_url: gitUrl, dry_run: isDryRun }: { readonly git_url?: string | null; readonly dry_run?: boolean | null },
): Promise<store.App> {
  if (!gitUrl || gitUrl === app.gitUrl || isDryRun) return app
  if (app.scmRepoId !== null)
    throw invalidState(
      'The app is connected to a repository of the git host. Change git_url and scm_repo_id together, with PATCH.',
    )
  return store.change(tx, app, { ...keep, gitUrl: rules.checkGitUrl(gitUrl) })
}

const keep = {
  port: undefined,
  command: undefined,
  arguments: undefined,
  healthCheckPath: undefined,
  releaseCommand: undefined,
  drainTimeout: undefined,
  canary: undefined,
  strategy: undefined,
  hosts: undefined,
  restart: undefined,
  build: undefined,
  scmInstallationId: undefined,
  gitBranch: undefined,
  gitSubmodules: undefined,
  scmRepoFullName: undefined,
  scmRepoId: undefined,
}
