/**
 * Plans the build of a repository from the names at its top and a few small files. Pure: no code of the repository
 * runs.
 */
import { BuildFault } from './fault.ts'
import { managerOf } from './plan/node/managers.ts'
import { readPackage } from './plan/node/package.ts'
import { packagesOf, type ToolPackages } from './plan/node/packages.ts'
import { openProject } from './plan/project.ts'
import { node } from './plan/providers/node.ts'

export type Plan =
  | { readonly kind: 'dockerfile'; readonly file: string }
  /** The directory `dir` of the tree is served unchanged. */
  | { readonly kind: 'static'; readonly dir: string }
  | (NodeBuild & {
      readonly kind: 'node'
      readonly start: readonly string[]
      /** Removes development dependencies; null if there are none, because starting npm is slow. */
      readonly prune: string | null
    })
  /** A site built with Node; `dir` is the output directory. */
  | (NodeBuild & { readonly kind: 'node-static'; readonly dir: string })
  | {
      readonly kind: 'python'
      readonly start: readonly string[]
      readonly install: 'requirements' | 'project' | 'none'
    }
  | { readonly kind: 'go' }

interface NodeBuild {
  /** Command lines of the project's package manager; null if there is nothing to do. */
  readonly install: string | null
  readonly build: string | null
  readonly packages: ToolPackages
}

export interface Tree {
  /** Names at the top of the tree. */
  readonly names: ReadonlySet<string>
  /** Names in `public`, if there is one. */
  readonly inPublic: ReadonlySet<string>
  /** Texts of the files at the top that `isPlanFile` accepts. */
  readonly files: ReadonlyMap<string, string>
}

/** @throws BuildFault that says what would make the repository buildable */
export function planBuild(tree: Tree): Plan {
  const has = (name: string) => tree.names.has(name)
  if (has('Dockerfile')) return { kind: 'dockerfile', file: 'Dockerfile' }
  if (has('Containerfile')) return { kind: 'dockerfile', file: 'Containerfile' }
  if (has('package.json')) return planNode(tree)
  if (has('go.mod')) return { kind: 'go' }
  if (pythonSigns.some(has)) return planPython(tree)
  if (has('index.html')) return { kind: 'static', dir: '.' }
  if (tree.inPublic.has('index.html')) return { kind: 'static', dir: 'public' }
  throw new BuildFault(
    'The repository has no known build method. Add a Dockerfile, or one of: package.json (Node), requirements.txt or ' +
      'pyproject.toml (Python), go.mod (Go), index.html (a static site).',
  )
}

const shell = (line: string) => ['/bin/sh', '-c', `exec ${line}`]

/** `web: command` (as of Heroku's Procfile). */
const webProcess = ({ files }: Tree) => /^web:\s*(\S.*)$/m.exec(files.get('Procfile') ?? '')?.[1]?.trim()

function planNode(tree: Tree): Plan {
  const project = openProject({ paths: tree.names, texts: tree.files })
  const { script, main, hasDependencies, mayHaveDevDependencies } = readPackage(project)
  const isPage = script('build') === undefined && script('start') === undefined && main === undefined
  if (isPage && !hasDependencies && project.has('index.html')) return { kind: 'static', dir: '.' }
  const plan = node.plan(project)
  const { manager } = managerOf(project)
  const [install = null] = plan.install
  const [build = null] = plan.build
  const steps = { install, build, packages: packagesOf(project, plan.tools) }
  const web = webProcess(tree)
  if (plan.staticDir !== null && web === undefined) return { kind: 'node-static', dir: plan.staticDir, ...steps }
  // The script itself, because a process of the package manager takes memory and no signals.
  const line = web ?? script('start') ?? plan.start
  if (line === null) throw new BuildFault('The start command is unknown. Add "start" to the "scripts" of package.json.')
  const prune = install !== null && mayHaveDevDependencies ? manager.prune : null
  return { kind: 'node', start: shell(line), prune, ...steps }
}

const pythonSigns = ['requirements.txt', 'pyproject.toml', 'setup.py', 'app.py', 'main.py', 'manage.py']

function planPython(tree: Tree): Plan {
  const has = (name: string) => tree.names.has(name)
  const install = has('requirements.txt')
    ? 'requirements'
    : has('pyproject.toml') || has('setup.py')
      ? 'project'
      : 'none'
  const line = webProcess(tree)
  if (line !== undefined) return { kind: 'python', start: shell(line), install }
  const file = ['app.py', 'main.py', 'server.py'].find(has)
  if (file === undefined)
    throw new BuildFault('This is a Python project without a known start command. Add a Procfile: web: <command>')
  const requirements = tree.files.get('requirements.txt') ?? ''
  const module = file.replace(/\.py$/, '')
  if (/^gunicorn\b/im.test(requirements))
    return { kind: 'python', start: shell(`gunicorn --bind 0.0.0.0:$PORT ${module}:app`), install }
  if (/^uvicorn\b/im.test(requirements))
    return { kind: 'python', start: shell(`uvicorn --host 0.0.0.0 --port $PORT ${module}:app`), install }
  return { kind: 'python', start: ['python3', file], install }
}
