/** Lists the source files of a folder: all files that no ignore rule excludes. */
import { type Dirent, existsSync } from 'node:fs'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import ignore, { type Ignore } from 'ignore'

export interface FolderFile {
  /** Path relative to the folder, with `/`. */
  readonly path: string
  readonly sizeBytes: number
  readonly isExecutable: boolean
  /** Target of a symbolic link. */
  readonly target?: string
}

interface Rules {
  /** The directory that the ignore rules apply to. */
  readonly base: string
  readonly matcher: Ignore
}

/**
 * Files excluded by default: `mote.toml` (a change of settings needs no build), build output, machine-specific files,
 * and secrets (set those with `mote env`).
 */
const usual = ['/mote.toml', '.git', 'node_modules/', '.venv/', '__pycache__/', '.DS_Store', '.env', '.env.local']

/**
 * Returns the source files, sorted by name. The rules come from `.gitignore` files (gitignore(5)) in the folder, below
 * it, and above it up to the top of its repository; if there is a Dockerfile, also from `.dockerignore`. `!.env` in a
 * `.gitignore` includes `.env`, which is excluded by default.
 */
export async function sourceFiles(dir: string): Promise<FolderFile[]> {
  const above = ancestors(dir)
  const rules: Rules[] = [{ base: dir, matcher: ignore().add(usual) }]
  for (const one of above) rules.push(...(await gitRules(one)))
  return walk(dir, dir, [...rules, ...(await dockerRules(dir))])
}

async function walk(top: string, dir: string, outer: readonly Rules[]): Promise<FolderFile[]> {
  const rules = [...outer, ...(await gitRules(dir))]
  const found: FolderFile[] = []
  const entries = (await readdir(dir, { withFileTypes: true })).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  for (const entry of entries) {
    const file = join(dir, entry.name)
    if (isIgnored(rules, file, entry.isDirectory())) continue
    if (entry.isDirectory()) found.push(...(await walk(top, file, rules)))
    else found.push(...(await described(top, file, entry)))
  }
  return found
}

/** Describes a directory entry. Sockets, pipes and devices are skipped. */
async function described(top: string, file: string, entry: Dirent): Promise<FolderFile[]> {
  const path = relative(top, file)
  if (entry.isSymbolicLink()) return [{ path, sizeBytes: 0, isExecutable: false, target: await readlink(file) }]
  if (!entry.isFile()) return []
  const { size, mode } = await lstat(file)
  return [{ path, sizeBytes: size, isExecutable: (mode & 0o111) !== 0 }]
}

/** Returns whether a file is excluded. The innermost directory with a matching rule decides. */
function isIgnored(rules: readonly Rules[], file: string, isDirectory: boolean): boolean {
  let ignored = false
  for (const { base, matcher } of rules) {
    const verdict = matcher.test(`${relative(base, file)}${isDirectory ? '/' : ''}`)
    if (verdict.ignored || verdict.unignored) ignored = verdict.ignored
  }
  return ignored
}

/** Returns the parent directories up to the top of the repository, outermost first; empty outside of a repository. */
function ancestors(dir: string): string[] {
  const found: string[] = []
  for (let at = dir; !existsSync(join(at, '.git')); at = dirname(at)) {
    if (dirname(at) === at) return []
    found.unshift(dirname(at))
  }
  return found
}

async function gitRules(dir: string): Promise<Rules[]> {
  const text = await textOf(join(dir, '.gitignore'))
  return text === undefined ? [] : [{ base: dir, matcher: ignore().add(text) }]
}

/**
 * Returns the rules of the `.dockerignore` beside a Dockerfile, relative to its directory. If the file has exceptions
 * (`!`), returns none: the builder applies `.dockerignore` anyway.
 */
async function dockerRules(dir: string): Promise<Rules[]> {
  if (!existsSync(join(dir, 'Dockerfile'))) return []
  const lines = ((await textOf(join(dir, '.dockerignore'))) ?? '').split('\n').map(line => line.trim())
  const patterns = lines.filter(line => line !== '' && !line.startsWith('#'))
  if (patterns.length === 0 || patterns.some(line => line.startsWith('!'))) return []
  const anchored = patterns.map(line => `/${line.replace(/^\/+/, '')}`)
  return [{ base: dir, matcher: ignore().add([...anchored, '!/Dockerfile', '!/.dockerignore']) }]
}

const textOf = (file: string) => readFile(file, 'utf8').catch(() => undefined)
