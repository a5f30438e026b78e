import { frameworks, type Served } from '../node/frameworks.ts'
import { isInSync, managerVersion } from '../node/locks.ts'
import { isBerry, isPnp, managerOf, type PackageManager } from '../node/managers.ts'
import { type NodePackage, readPackage } from '../node/package.ts'
import { nxOf } from '../node/nx.ts'
import { packagesOf } from '../node/packages.ts'
import { debianOf, nodeNeeds } from '../debian.ts'
import { faultAt, lineAt, type Project } from '../project.ts'
import type { Provider, ToolName, ToolVersion } from '../types.ts'
import { namesStart } from '../start.ts'
import { versionInToolFile, versionOf } from '../versions.ts'

export const node: Provider = {
  name: 'node',
  detect: project => project.has('package.json') && !isPage(project),
  plan: project => {
    const own = readPackage(project)
    const { manager, lock } = managerOf(project)
    const framework = frameworks.find(one => one.detect(own, project))
    const nx = nxOf(project)
    const served = framework?.serve(own, project) ?? { staticDir: null, start: null }
    const builds = own.script('build') !== undefined
    const pnp = manager.tool === 'yarn' && isPnp(project)
    const staticDir = builds && !startsServer(own) ? served.staticDir : null
    const tools = toolsOf(project, own, manager, lock)
    const installs = own.hasDependencies || own.installsMore || lock !== null
    const isLocked = lock !== null && (manager.tool !== 'npm' || isInSync(project, lock))
    return {
      framework: framework?.name ?? null,
      debian: debianOf(nodeNeeds, own.uses),
      tools,
      install: installs ? [manager.install(isLocked, isBerry(project))] : [],
      build: builds ? [manager.run('build')] : (nx?.build ?? []),
      start: staticDir === null ? startOf(project, own, manager, nx?.start ?? served.start, builds) : null,
      staticDir: staticDir ?? (unknownSite(project, own, served, builds) ? 'dist' : null),
      port: null,
      node: {
        packages: packagesOf(project, tools),
        prune: installs && own.mayHaveDevDependencies ? manager.prune : null,
        pnp,
        script: pnp ? null : (own.script('start') ?? null),
      },
    }
  },
}

/** Whether the project is a static site with a package.json that has nothing to install, build or start. */
function isPage(project: Project): boolean {
  const { script, main, hasDependencies } = readPackage(project)
  const runs = script('build') !== undefined || script('start') !== undefined || main !== undefined
  return !runs && !hasDependencies && project.has('index.html')
}

/** Returns the versions of Node, of the package manager, and of Bun if a script calls it or the project names it. */
function toolsOf(project: Project, own: NodePackage, manager: PackageManager, lock: string | null): ToolVersion[] {
  const callsBun = ['build', 'start'].some(name => /\bbunx?\b/.test(own.script(name) ?? ''))
  const usesBun = callsBun || versionInToolFile(project, 'bun') !== undefined
  const more: ToolName[] = usesBun && manager.tool !== 'bun' ? ['bun'] : []
  return [
    versionOf(project, 'node'),
    managerVersion(project, manager, lock),
    ...more.map(tool => versionOf(project, tool)),
  ]
}

/** Matches start scripts that run a development server, or a framework's server that cannot serve a static export. */
const devServers =
  /^(?:\w+=\S+\s+)*(?:npx |pnpm |bunx? )?(?:vite|ng serve|astro|react-scripts|expo|serve|next|react-router-serve|gatsby|docusaurus|eleventy|vue-cli-service)\b/

/** Whether the `start` script runs the app's own server. Then the output directory is not served as a static site. */
function startsServer(own: NodePackage): boolean {
  const line = own.script('start')
  return line !== undefined && !devServers.test(line)
}

const mainFiles = ['index.js', 'index.ts', 'server.js', 'app.js', 'main.js', 'server.ts', 'main.ts']

/**
 * Whether the project is a static site of an unknown framework: it has a build and no server. Most such tools write to
 * `dist`.
 */
const unknownSite = (project: Project, own: NodePackage, served: Served, builds: boolean) =>
  builds && served.start === null && own.script('start') === undefined && fileOf(project, own) === undefined

const fileOf = (project: Project, { main }: NodePackage) =>
  main !== undefined && project.has(main) ? main : mainFiles.find(project.has)

function startOf(
  project: Project,
  own: NodePackage,
  manager: PackageManager,
  fallback: string | null,
  builds: boolean,
): string | null {
  if (own.script('start') !== undefined) return manager.run('start')
  // With a build, `main` may be a generated file such as dist/index.js, which is not in the source.
  const run = manager.tool === 'yarn' && isPnp(project) ? (path: string) => `yarn node ${path}` : manager.file
  const file = own.main !== undefined && builds && fallback === null ? own.main : fileOf(project, own)
  if (file !== undefined) return run(file)
  if (fallback !== null) return fallback
  if (builds || namesStart(project)) return null
  const text = project.text('package.json')
  throw faultAt(
    { file: 'package.json', line: lineAt(text, text.indexOf('"scripts"')) },
    'There is no "start" script and no "main" file, so the start command is unknown. Add "start" to "scripts".',
  )
}
