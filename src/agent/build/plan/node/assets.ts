/** Plans the Node steps of a project whose server is written in another language, such as building its assets. */
import type { Project } from '../project.ts'
import type { NodeSteps, ToolVersion } from '../types.ts'
import { versionOf } from '../versions.ts'
import { managerVersion } from './locks.ts'
import { isBerry, isPnp, managerOf } from './managers.ts'
import { readPackage } from './package.ts'
import { packagesOf } from './packages.ts'

export interface Assets {
  readonly tools: readonly ToolVersion[]
  readonly install: readonly string[]
  readonly build: readonly string[]
  readonly node?: NodeSteps
}

export function assetsOf(project: Project): Assets {
  if (!project.has('package.json')) return { tools: [], install: [], build: [] }
  const { manager, lock } = managerOf(project)
  const { script } = readPackage(project)
  const tools = [versionOf(project, 'node'), managerVersion(project, manager, lock)]
  return {
    tools,
    node: {
      packages: packagesOf(project, tools),
      prune: null,
      pnp: manager.tool === 'yarn' && isPnp(project),
      script: null,
    },
    install: [manager.install(lock !== null, isBerry(project))],
    build: script('build') === undefined ? [] : [manager.run('build')],
  }
}
