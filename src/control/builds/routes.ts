import type { Deps } from '../base/deps.ts'
import { notFound } from '../http/errors.ts'
import { feature } from '../http/operation.ts'
import { listById } from '../http/paging.ts'
import { semaphore } from '../../lib/semaphore.ts'
import * as builds from './list.ts'
import { uploadDigest } from './rules.ts'
import { type BuildLine, hostLines, keptLines, keptLog } from './log.ts'
import { type Build, type BuildLog, buildOperations } from './schema.ts'
import { keepSource } from './sources.ts'

/** Maximum number of concurrent uploads. Each upload is unpacked and packed again, which takes CPU time. */
const uploadsAtOnce = 4

export const buildFeature = (deps: Pick<Deps, 'db' | 'bus' | 'log' | 'config'>) => {
  const uploads = semaphore(uploadsAtOnce)
  return feature(buildOperations, {
    putAppSource: {
      write: async call => {
        const app = await builds.appNamed(deps.db, call.project.id, call.params.app_name)
        if (!app) throw notFound()
        const release = await uploads.take(call.signal)
        const taken = await keepSource(deps.config.sourceDir, app.id, call.body, call.signal).finally(release)
        return async () => {
          call.audit({
            action: 'app.source',
            resourceType: 'app',
            resourceId: app.id,
            details: { name: call.params.app_name, source: `sha256:${taken.digest}`, size_bytes: taken.sizeBytes },
          })
          return { source: `sha256:${taken.digest}`, size_bytes: taken.sizeBytes, files: taken.files }
        }
      },
    },
    listBuilds: {
      read: async ({ project, params, page }) => {
        if (!(await builds.appNamed(deps.db, project.id, params.app_name))) throw notFound()
        return listById(page, window => builds.list(deps.db, project.id, params.app_name, window), view)
      },
    },
    getBuildLog: {
      read: async ({ project, params, query }) => {
        const build = await builds.named(deps.db, project.id, params.app_name, params.build_id)
        if (!build) throw notFound()
        const { source, lines } = await linesOf(deps, build, query.tail ?? keptLines)
        return {
          build_id: build.id,
          deployment_id: build.deploymentId,
          status: build.state,
          error: build.error,
          source,
          lines: lines.map(({ atUs, line }) => ({ at: new Date(atUs / 1000).toISOString(), line })),
        }
      },
    },
  })
}

async function linesOf(
  deps: Pick<Deps, 'db' | 'bus' | 'log'>,
  { id, hostId }: builds.ListedBuild,
  tail: number,
): Promise<{ readonly source: BuildLog['source']; readonly lines: readonly BuildLine[] }> {
  const kept = await keptLog(deps.db, id)
  if (kept) return { source: 'kept', lines: kept.slice(Math.max(0, kept.length - tail)) }
  if (hostId === null) return { source: 'none', lines: [] }
  try {
    return { source: 'host', lines: await hostLines(deps, { id, hostId }, tail) }
  } catch (err) {
    deps.log.warn({ err, buildId: id, hostId }, 'a host did not return the log of a build')
    return { source: 'none', lines: [] }
  }
}

/** Returns the name of a build's uploaded source, as the upload returned it; null if the source is a repository. */
function sourceName(gitUrl: string): string | null {
  const digest = uploadDigest(gitUrl)
  return digest === undefined ? null : `sha256:${digest}`
}

const view = (build: builds.ListedBuild): Build => ({
  id: build.id,
  deployment_id: build.deploymentId,
  job_id: build.jobId,
  status: build.state,
  git_branch: build.branch,
  git_commit_hash: build.commit,
  git_commit_message: build.message,
  trigger_source: build.triggerSource,
  image: build.image,
  source: sourceName(build.gitUrl),
  error: build.error,
  created_at: build.createdAt.toISOString(),
  started_at: build.startedAt?.toISOString() ?? null,
  ended_at: build.endedAt?.toISOString() ?? null,
})
