/**
 * Plans the build of a repository from the names at its top and a few small files. Pure: no code of the repository
 * runs.
 */
import { BuildFault } from './fault.ts'

export type Plan =
  | { readonly kind: 'dockerfile'; readonly file: string }
  /** The directory `dir` of the tree is served unchanged. */
  | { readonly kind: 'static'; readonly dir: string }
  | {
      readonly kind: 'node'
      readonly start: readonly string[]
      readonly install: 'ci' | 'install' | 'none'
      readonly builds: boolean
      /**
       * Whether development dependencies are removed after the build. Skipped if there are none, because starting npm
       * is slow.
       */
      readonly prunes: boolean
    }
  /** A site built with Node; `dir` is the output directory. */
  | { readonly kind: 'node-static'; readonly dir: string; readonly install: 'ci' | 'install' | 'none' }
  | {
      readonly kind: 'python'
      readonly start: readonly string[]
      readonly install: 'requirements' | 'project' | 'none'
    }
  | { readonly kind: 'go' }

export interface Tree {
  /** Names at the top of the tree. */
  readonly names: ReadonlySet<string>
  /** Names in `public`, if there is one. */
  readonly inPublic: ReadonlySet<string>
  /** Texts of the files in `looksAt` that exist. */
  readonly files: ReadonlyMap<string, string>
}

/** Files whose content decides the plan. */
export const looksAt = ['package.json', 'Procfile', 'requirements.txt'] as const

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
  const { scripts, main, hasDependencies, mayHaveDevDependencies } = readPackage(tree.files.get('package.json') ?? '')
  const has = (name: string) => tree.names.has(name)
  const install = has('package-lock.json') ? 'ci' : hasDependencies ? 'install' : 'none'
  const builds = scripts.has('build')
  const line = webProcess(tree) ?? scripts.get('start')
  const file = [main, 'server.js', 'index.js', 'app.js', 'main.js'].find(name => name !== undefined && has(name))
  const start = line !== undefined ? shell(line) : file !== undefined ? ['node', file] : undefined
  if (start) return { kind: 'node', start, install, builds, prunes: install !== 'none' && mayHaveDevDependencies }
  // Vite, Astro and similar tools write the site to dist.
  if (builds) return { kind: 'node-static', dir: 'dist', install }
  if (has('index.html')) return { kind: 'static', dir: '.' }
  throw new BuildFault('package.json has no "start" script and no "main" file, so the start command is unknown.')
}

function readPackage(text: string) {
  const parsed = parseObject(text, 'package.json')
  const scripts = new Map(
    Object.entries(objectOr(parsed.scripts)).flatMap(([name, line]) =>
      typeof line === 'string' ? [[name, line] as const] : [],
    ),
  )
  const main = typeof parsed.main === 'string' ? parsed.main.replace(/^\.\//, '') : undefined
  const isEmpty = (value: unknown) => Object.keys(objectOr(value)).length === 0
  const hasOnlyDependencies = isEmpty(parsed.devDependencies)
  return {
    scripts,
    main,
    hasDependencies: !isEmpty(parsed.dependencies) || !hasOnlyDependencies,
    // Each workspace has its own package.json, which is not read.
    mayHaveDevDependencies: !hasOnlyDependencies || parsed.workspaces !== undefined,
  }
}

const objectOr = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}

function parseObject(text: string, name: string): Record<string, unknown> {
  try {
    return objectOr(JSON.parse(text))
  } catch (cause) {
    throw new BuildFault(`${name} is not valid JSON: ${cause instanceof Error ? cause.message : ''}`, { cause })
  }
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
