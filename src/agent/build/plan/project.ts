/** Read access to the files that decide a project's build plan. */
import { BuildFault } from '../fault.ts'
import { readToml, type TomlLine } from './toml.ts'

export interface ProjectFiles {
  /** Paths of all files below the root, separated by `/`. */
  readonly paths: ReadonlySet<string>
  /** Contents of the files that `isPlanFile` accepts. */
  readonly texts: ReadonlyMap<string, string>
}

export interface Project {
  has(path: string): boolean
  /** Returns the paths of files that match the pattern, sorted. */
  find(pattern: RegExp): readonly string[]
  /** Returns the paths of files below the directory, sorted. */
  under(dir: string): readonly string[]
  /** Returns the file's text; empty if the file does not exist. */
  text(path: string): string
  /** Returns the parsed file; empty if the file does not exist. @throws BuildFault if the file is not a JSON object */
  json(path: string): Record<string, unknown>
  toml(path: string): readonly TomlLine[]
}

/** Files nested deeper than this number of path segments are not read. */
const deepest = 4

const planNames: ReadonlySet<string> = new Set([
  ...[
    'Dockerfile',
    'Containerfile',
    '.dockerignore',
    'Procfile',
    'Staticfile',
    'mise.toml',
    '.tool-versions',
    'start.sh',
  ],
  ...['package.json', '.nvmrc', '.node-version', '.bun-version', 'angular.json', 'deno.json', 'deno.jsonc'],
  ...['requirements.txt', 'pyproject.toml', 'Pipfile', '.python-version', 'runtime.txt', '.deno-version'],
  ...['go.mod', 'go.work', '.go-version', 'Cargo.toml', 'rust-toolchain', 'rust-toolchain.toml'],
  ...['Gemfile', 'Gemfile.lock', '.ruby-version', 'composer.json', 'global.json', 'gleam.toml', 'mix.exs', 'pom.xml'],
  ...[
    'build.gradle',
    'build.gradle.kts',
    'settings.gradle',
    'settings.gradle.kts',
    'gradle-wrapper.properties',
    '.java-version',
    '.elixir-version',
    'CMakeLists.txt',
    'meson.build',
    'yarn.lock',
    'pnpm-lock.yaml',
    'package-lock.json',
  ],
  ...['pnpm-workspace.yaml', 'manage.py', 'settings.py', 'nx.json', 'app.json', 'railpack.json', '.yarnrc.yml'],
])
const planPatterns = [/^[\w.-]+\.config\.(?:[cm]?[jt]s)$/, /\.csproj$/]

/** Maximum number of segments in a path; deeper files do not influence the plan. */
const deepestPath = 8

/** Whether the path is shallow enough to be considered for a plan. */
export const isPlanPath = (path: string) => path.split('/').length <= deepestPath

/** Whether a plan may depend on the content of the file. */
export function isPlanFile(path: string): boolean {
  const parts = path.split('/')
  const name = parts.at(-1) ?? ''
  return parts.length <= deepest && (planNames.has(name) || planPatterns.some(pattern => pattern.test(name)))
}

const lockFiles: ReadonlySet<string> = new Set(['yarn.lock', 'pnpm-lock.yaml', 'package-lock.json'])
const isLockFile = (path: string) => lockFiles.has(path.split('/').at(-1) ?? '')
const mostBytes = { lock: 1536 << 10, other: 256 << 10 } as const
/** Length of the first part of a lock file that is kept. It contains the format and the project's own dependencies. */
const keptOfLock = 64 << 10

/** Whether the file is small enough to be read for the plan. */
export const fitsPlan = (path: string, bytes: number) => bytes <= mostBytes[isLockFile(path) ? 'lock' : 'other']

/**
 * Returns the text for planning: only the first part of a lock file, which may be large, and the whole text of other
 * files.
 */
export const keptText = (path: string, text: string) => (isLockFile(path) ? text.slice(0, keptOfLock) : text)

/** @param root the project's directory in the repository; empty for the top */
export function openProject({ paths, texts }: ProjectFiles, root = ''): Project {
  const prefix = root === '' ? '' : `${root}/`
  const own = [...paths].filter(path => path.startsWith(prefix)).map(path => path.slice(prefix.length))
  const known = new Set(own)
  const text = (path: string) => texts.get(prefix + path) ?? ''
  return {
    has: path => known.has(path),
    find: pattern => own.filter(path => pattern.test(path)).sort(),
    under: dir => own.filter(path => path.startsWith(`${dir}/`)).sort(),
    text,
    json: once(path => (known.has(path) ? parseObject(text(path), path) : {})),
    toml: once(path => readToml(text(path))),
  }
}

/** Caches the result of `parse` per file, because several version sources and frameworks read the same file. */
function once<Result>(parse: (path: string) => Result): (path: string) => Result {
  const parsed = new Map<string, Result>()
  return path => {
    const known = parsed.get(path)
    if (known !== undefined) return known
    const result = parse(path)
    parsed.set(path, result)
    return result
  }
}

export const objectOr = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}

export const stringOr = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined

/**
 * Matches a string in JavaScript or JSON, even without a closing quote. Without that, the regular expression would
 * search again from each quote, which takes minutes for 256 KiB.
 */
const string = /"(?:[^"\\\n]|\\[\s\S]?)*(?:"|\n|$)|'(?:[^'\\\n]|\\[\s\S]?)*(?:'|\n|$)/.source
const comment = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/.source
const commentOrString = new RegExp(`(${string})|${comment}`, 'g')
const commaOrString = new RegExp(`(${string})|,(?=\\s*[}\\]])`, 'g')

/** Removes comments from JavaScript, or from JSON with comments. */
export const withoutComments = (text: string) => text.replace(commentOrString, '$1')

export const plainJson = (text: string) => withoutComments(text).replace(commaOrString, '$1')

/** JSON files in which comments are allowed, besides those whose names end with `c`. */
const commented: ReadonlySet<string> = new Set(['global.json', 'railpack.json'])

function parseObject(text: string, file: string): Record<string, unknown> {
  try {
    return objectOr(JSON.parse(file.endsWith('c') || commented.has(file) ? plainJson(text) : text))
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : ''
    const line = Number(
      /line (\d+)/.exec(message)?.[1] ?? lineAt(text, Number(/position (\d+)/.exec(message)?.[1] ?? 0)),
    )
    throw faultAt({ file, line }, `The file is not valid JSON: ${message}`, cause)
  }
}

export const lineAt = (text: string, index: number) => text.slice(0, Math.max(0, index)).split('\n').length

/** Returns an error about a line in the project's own files. */
export const faultAt = (
  { file, line }: { readonly file: string; readonly line: number },
  message: string,
  cause?: unknown,
) => new BuildFault(`${file}, line ${line}: ${message}`, cause === undefined ? undefined : { cause })
