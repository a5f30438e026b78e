/** Node's package managers: how to detect the one that a project uses, and its commands. */
import { faultAt, lineAt, objectOr, type Project, stringOr } from '../project.ts'
import type { ToolName } from '../types.ts'

export interface PackageManager {
  readonly tool: ToolName & ('npm' | 'pnpm' | 'yarn' | 'bun')
  readonly locks: readonly string[]
  /**
   * @param locked whether there is a lock file to install from
   * @param berry whether Yarn is version 2 or newer
   */
  readonly install: (locked: boolean, berry: boolean) => string
  readonly run: (script: string) => string
  /** The command that removes development dependencies; null if the manager cannot do that offline. */
  readonly prune: string | null
  /** Returns the command that runs a JavaScript file. */
  readonly file: (path: string) => string
}

const nodeFile = (path: string) => `node ${path}`

/** Package managers in order of precedence: the first one whose lock file the project has is used. */
export const packageManagers: readonly PackageManager[] = [
  {
    tool: 'pnpm',
    locks: ['pnpm-lock.yaml'],
    install: locked => (locked ? 'pnpm install --frozen-lockfile --prefer-offline' : 'pnpm install'),
    run: script => `pnpm run ${script}`,
    prune: 'pnpm prune --prod',
    file: nodeFile,
  },
  {
    tool: 'bun',
    locks: ['bun.lock', 'bun.lockb'],
    install: locked => (locked ? 'bun install --frozen-lockfile' : 'bun install'),
    run: script => `bun run ${script}`,
    prune: null,
    file: path => `bun ${path}`,
  },
  {
    tool: 'yarn',
    locks: ['yarn.lock'],
    install: (locked, berry) => {
      if (berry) return locked ? 'yarn install --immutable' : 'yarn install'
      return locked ? 'yarn install --frozen-lockfile' : 'yarn install'
    },
    run: script => `yarn run ${script}`,
    prune: null,
    file: nodeFile,
  },
  {
    tool: 'npm',
    locks: ['package-lock.json', 'npm-shrinkwrap.json'],
    install: locked => (locked ? 'npm ci' : 'npm install'),
    run: script => `npm run ${script}`,
    prune: 'npm prune --omit=dev',
    file: nodeFile,
  },
]

const npm = packageManagers.find(({ tool }) => tool === 'npm')

/**
 * Detects the package manager by `packageManager`, then by lock file, then by `engines`, otherwise npm.
 * @throws BuildFault if the manager is not supported
 */
export function managerOf(project: Project): { readonly manager: PackageManager; readonly lock: string | null } {
  const lockOf = ({ locks }: PackageManager) => locks.find(project.has) ?? null
  const field = stringOr(project.json('package.json')['packageManager'])
  const byField = packageManagers.find(({ tool }) => field?.startsWith(`${tool}@`))
  if (field !== undefined && !byField) {
    const text = project.text('package.json')
    const line = lineAt(text, text.indexOf('"packageManager"'))
    throw faultAt(
      { file: 'package.json', line },
      `"${field}" is not supported. Use npm, pnpm, yarn or bun with a version.`,
    )
  }
  const manager =
    byField ??
    packageManagers.find(one => lockOf(one) !== null) ??
    packageManagers.find(({ tool }) => tool !== 'npm' && enginesOf(project, tool)) ??
    (project.has('bunfig.toml') ? packageManagers.find(({ tool }) => tool === 'bun') : undefined) ??
    npm
  if (!manager) throw new Error('BUG: the table of package managers has no npm')
  return { manager, lock: lockOf(manager) }
}

const enginesOf = (project: Project, tool: string) =>
  objectOr(project.json('package.json')['engines'])[tool] !== undefined

/**
 * Whether Yarn loads packages from archives (Plug'n'Play), the default since Yarn 2. Then Yarn must start the program.
 */
export const isPnp = (project: Project) =>
  isBerry(project) && !/^nodeLinker:\s*["']?(?:node-modules|pnpm)\b/m.test(project.text('.yarnrc.yml'))

/** Whether the project uses Yarn 2 or newer, whose lock file and settings have another format. */
export const isBerry = (project: Project) =>
  project.has('.yarnrc.yml') ||
  /^__metadata:/m.test(project.text('yarn.lock')) ||
  /"packageManager"\s*:\s*"yarn@[2-9]/.test(project.text('package.json'))
