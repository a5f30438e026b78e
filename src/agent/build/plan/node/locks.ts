/** Lock files of Node projects: which version of the package manager wrote one, and whether it matches package.json. */
import { lineAt, objectOr, type Project } from '../project.ts'
import type { ToolVersion } from '../types.ts'
import { versionOf } from '../versions.ts'
import { isBerry, type PackageManager } from './managers.ts'

/** For each lock file format: the version of the package manager that reads the file without rewriting it. */
const formats: Readonly<Partial<Record<PackageManager['tool'], readonly (readonly [RegExp, string])[]>>> = {
  pnpm: [
    [/^lockfileVersion: '?5\.3\b/m, '6'],
    [/^lockfileVersion: '?5\.4\b/m, '7'],
    [/^lockfileVersion: '?6\./m, '8'],
    // Lock files of pnpm 9 and 10 have the same format. pnpm 9 is used, because pnpm 10 skips install scripts of
    // dependencies by default.
    [/^lockfileVersion: '?9\./m, '9'],
  ],
  yarn: [
    [/^__metadata:\r?\n\s+version: [1-4]\b/m, '2'],
    [/^__metadata:\r?\n\s+version: [56]\b/m, '3'],
    [/^__metadata:\r?\n\s+version: \d+/m, '4'],
  ],
}

/** Returns the version that the project names, otherwise that of its lock file, otherwise the default. */
export function managerVersion(project: Project, { tool }: PackageManager, lock: string | null): ToolVersion {
  const named = versionOf(project, tool)
  if (named.from !== null) return named
  // pnpm 9 rejects a workspace file without `packages`.
  const needsNewest = tool === 'pnpm' && /^(?!packages:)\w+:/m.test(project.text('pnpm-workspace.yaml'))
  const text = lock === null || needsNewest ? '' : project.text(lock)
  for (const [pattern, version] of formats[tool] ?? []) {
    const index = text.search(pattern)
    if (lock !== null && index !== -1) return { tool, version, from: { file: lock, line: lineAt(text, index) } }
  }
  return tool === 'yarn' && isBerry(project) ? { ...named, version: newestBerry } : named
}

const newestBerry = '4'

/** Whether `npm ci` accepts the lock file. Also true if the file has an old format or cannot be parsed. */
export function isInSync(project: Project, lock: string): boolean {
  const root = rootEntry(project.text(lock))
  if (root === undefined) return true
  const locked = dependenciesOf(root)
  return [...dependenciesOf(project.json('package.json'))].every(one => locked.has(one))
}

/**
 * Returns the lock file's entry for the project itself, which is the first one in `packages`. Cannot use JSON.parse on
 * the whole text, because only the first part of a large file is known.
 */
function rootEntry(text: string): Record<string, unknown> | undefined {
  const start = /"packages"\s*:\s*\{\s*""\s*:\s*(?=\{)/.exec(text)
  if (!start) return undefined
  const from = start.index + start[0].length
  let depth = 0
  for (const { 0: one, index } of text.slice(from).matchAll(/"(?:[^"\\]|\\[\s\S])*(?:"|\\?$)|[{}]/g)) {
    depth += one === '{' ? 1 : one === '}' ? -1 : 0
    if (depth > 0) continue
    try {
      return objectOr(JSON.parse(text.slice(from, from + index + 1)))
    } catch {
      return undefined
    }
  }
  return undefined
}

/** Returns the names of all kinds of dependencies: npm lists a dependency of two kinds only once in the lock file. */
const dependenciesOf = (own: Record<string, unknown>): Set<string> =>
  new Set(
    ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']
      .flatMap(kind => Object.entries(objectOr(own[kind])))
      .map(([name, version]) => `${name} ${String(version)}`),
  )
