/**
 * Plans an Nx workspace, whose top-level package.json has no scripts: builds and starts the first app with a Next.js
 * config.
 */
import type { Project } from '../project.ts'
import { stringOr } from '../project.ts'

export function nxOf(project: Project): { readonly build: readonly string[]; readonly start: string } | undefined {
  if (!project.has('nx.json')) return undefined
  const config = project.find(/^apps\/[^/]+\/next\.config\.[cm]?[jt]s$/)[0]
  const dir = config?.split('/').slice(0, 2).join('/')
  if (dir === undefined) return undefined
  const name = stringOr(project.json(`${dir}/package.json`)['name']) ?? dir.split('/')[1]
  return { build: [`npx nx build ${name}`], start: `cd ${dir} && npx next start -p $PORT` }
}
