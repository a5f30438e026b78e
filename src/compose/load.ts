/**
 * Reads the files of a stack into one model: merges overrides, resolves `include` and `extends`, and replaces
 * variables.
 */
import { dirname, isAbsolute, join } from '../lib/posix-path.ts'
import { readEnvFile } from './env-file.ts'
import { Invalid, type Place } from './faults.ts'
import type { Variables } from './interpolate.ts'
import { interpolateTree } from './interpolate-tree.ts'
import { merge } from './merge.ts'
import { type Mapping, readTree, type Tree } from './tree.ts'

export interface Files {
  /** Returns the text of a file; undefined if the file does not exist. */
  read(path: string): Promise<string | undefined>
  /**
   * Returns the content of a file; undefined if the path is not a file. Absent if local files cannot be read, as for
   * templates.
   */
  bytes?(path: string): Promise<Uint8Array<ArrayBuffer> | undefined>
  /**
   * Returns all files in and below a folder, or the file itself; undefined if there is neither. Absent if local files
   * cannot be read, as for templates.
   */
  list?(path: string): Promise<FolderListing | undefined>
}

export interface FolderListing {
  readonly isFolder: boolean
  readonly entries: readonly FolderEntry[]
}

export interface FolderEntry {
  /** Path of the entry relative to the listed folder; empty if a file was listed. */
  readonly path: string
  readonly isExecutable: boolean
}

export interface Model {
  readonly name: string | undefined
  readonly services: ReadonlyMap<string, Mapping>
  readonly volumes: ReadonlyMap<string, Tree>
  readonly networks: ReadonlyMap<string, Tree>
  /** Top-level `configs`, `secrets` and unknown keys of the files, by name. */
  readonly others: ReadonlyMap<string, Tree>
  /** Variables that are used but not set, with the position of their first use. */
  readonly missing: ReadonlyMap<string, Place>
  readonly variables: Variables
}

const mostFiles = 50
const mostDepth = 10
const sections = ['services', 'volumes', 'networks', 'configs', 'secrets', 'models'] as const

/**
 * Loads the files of a stack.
 * @param paths later files override earlier ones
 * @param environment takes precedence over the `.env` file next to the first file
 * @throws Invalid
 */
export async function loadModel(
  paths: readonly string[],
  files: Files,
  environment: (name: string) => string | undefined,
): Promise<Model> {
  const missing = new Map<string, Place>()
  const noted = (name: string, at: Place) => void (missing.has(name) || missing.set(name, at))
  const own: Variables = { get: environment, missing: noted }
  const dotenv = join(dirname(paths[0] ?? '.'), '.env')
  const text = await files.read(dotenv)
  const known = text === undefined ? undefined : readEnvFile(text, dotenv, own)
  const variables: Variables = { get: name => environment(name) ?? known?.get(name), missing: noted }
  const loader: Loader = { files, trees: new Map(), open: new Set() }
  const root = await combined(paths, loader, variables)
  return {
    name: textOf(root.entries.get('name')),
    services: await servicesOf(root, loader, variables),
    volumes: sectionOf(root, 'volumes'),
    networks: sectionOf(root, 'networks'),
    others: new Map(
      [...root.entries].filter(
        ([key]) => !['name', 'version', 'services', 'volumes', 'networks', 'include'].includes(key),
      ),
    ),
    missing,
    variables,
  }
}

interface Loader {
  readonly files: Files
  readonly trees: Map<string, Mapping>
  /** Files whose includes are being read, to detect circles. */
  readonly open: Set<string>
}

/** Reads one compose file and replaces the variables in it. */
async function fileTree(path: string, loader: Loader, variables: Variables, by?: Place): Promise<Mapping> {
  const known = loader.trees.get(path)
  if (known) return known
  const start = by ?? { file: path, line: 1, column: 1 }
  if (loader.trees.size >= mostFiles) throw wrong(start, '', `More than ${mostFiles} files belong to the stack`)
  const text = await loader.files.read(path)
  if (text === undefined) throw wrong(start, '', `The file ${path} does not exist`)
  const tree = interpolateTree(readTree(text, path), variables)
  if (tree.kind !== 'map') throw wrong(tree.at, '', 'The file must be a map with the key "services"')
  loader.trees.set(path, tree)
  return tree
}

/** Merges the compose files, and the files that they include. */
async function combined(paths: readonly string[], loader: Loader, variables: Variables, by?: Place): Promise<Mapping> {
  const trees: Mapping[] = []
  for (const path of paths) {
    const tree = await fileTree(path, loader, variables, by)
    trees.push(await withIncluded(tree, path, loader, variables))
  }
  const [first, ...rest] = trees
  if (!first) throw new Error('BUG: no compose file was given')
  return rest.reduce((base, over) => merge(base, over, []) as Mapping, first)
}

async function withIncluded(tree: Mapping, path: string, loader: Loader, variables: Variables): Promise<Mapping> {
  const include = tree.entries.get('include')
  if (!include) return tree
  if (include.kind !== 'list') throw wrong(include.at, 'include', 'must be a list of files')
  if (loader.open.has(path) || loader.open.size >= mostDepth)
    throw wrong(include.at, 'include', 'includes files in a circle, or too deeply')
  loader.open.add(path)
  let whole: Mapping = { ...tree, entries: new Map([...tree.entries].filter(([key]) => key !== 'include')) }
  for (const item of include.items) {
    const inner = await included(item, path, loader, variables)
    for (const section of sections) {
      const both = sectionOf(whole, section)
      for (const [name, { at }] of sectionOf(inner, section))
        if (both.has(name)) throw wrong(at, `${section}.${name}`, 'is also in the file that includes this one')
    }
    whole = merge(inner, whole, []) as Mapping
  }
  loader.open.delete(path)
  return whole
}

async function included(item: Tree, from: string, loader: Loader, variables: Variables): Promise<Mapping> {
  const given = item.kind === 'map' ? item.entries.get('path') : item
  const names = given?.kind === 'list' ? given.items.map(textOf) : [textOf(given)]
  const paths = names.map(name => {
    if (name === undefined || name === '') throw wrong(item.at, 'include', 'must name files')
    return beside(from, name, item.at, 'include')
  })
  const inner = await withEnvFiles(item, from, loader, variables)
  const tree = await combined(paths, loader, inner, item.at)
  return { ...tree, entries: new Map([...tree.entries].filter(([key]) => key !== 'name')) }
}

/**
 * Returns the variables for an included file: those of the whole stack; for names that are not set there, those of the
 * `env_file` of the include.
 */
async function withEnvFiles(item: Tree, from: string, loader: Loader, variables: Variables): Promise<Variables> {
  const given = item.kind === 'map' ? item.entries.get('env_file') : undefined
  if (!given) return variables
  const own = new Map<string, string | undefined>()
  for (const one of given.kind === 'list' ? given.items : [given]) {
    const path = beside(from, textOf(one) ?? '', one.at, 'include.env_file')
    const text = await loader.files.read(path)
    if (text === undefined) throw wrong(one.at, 'include.env_file', `The file ${path} does not exist`)
    for (const [name, value] of readEnvFile(text, path, variables)) own.set(name, value)
  }
  return { get: name => variables.get(name) ?? own.get(name), missing: variables.missing }
}

/** Resolves the name of a file that another file refers to, relative to the folder of the referring file. */
export function beside(from: string, name: string, at: Place, field: string): string {
  if (/^[a-z][a-z0-9+.-]*:/i.test(name) || name.startsWith('git@'))
    throw wrong(at, field, 'must be a file of this computer: remote files are not read')
  return isAbsolute(name) ? name : join(dirname(from), name)
}

async function servicesOf(root: Mapping, loader: Loader, variables: Variables): Promise<Map<string, Mapping>> {
  const given = root.entries.get('services')
  if (!given) throw wrong(root.at, 'services', 'is required')
  if (given.kind !== 'map') throw wrong(given.at, 'services', 'must be a map of services')
  const services = new Map<string, Mapping>()
  for (const name of given.entries.keys())
    services.set(name, await extended(given.entries, name, { loader, variables, path: [] }))
  return services
}

interface Extension {
  readonly loader: Loader
  readonly variables: Variables
  /** The chain of services that extend each other, as `file service`, to detect circles. */
  readonly path: readonly string[]
}

async function extended(services: ReadonlyMap<string, Tree>, name: string, extension: Extension): Promise<Mapping> {
  const service = services.get(name)
  if (service?.kind !== 'map') throw wrong(service?.at ?? nowhere, `services.${name}`, 'must be a map')
  const base = service.entries.get('extends')
  if (!base) return service
  const field = `services.${name}.extends`
  const { file } = base.at
  const step = `${file} ${name}`
  if (extension.path.includes(step) || extension.path.length >= mostDepth)
    throw wrong(base.at, field, 'extends services in a circle, or too deeply')
  const target = textOf(base.kind === 'map' ? base.entries.get('service') : base)
  if (target === undefined) throw wrong(base.at, field, 'must name a service')
  const other = base.kind === 'map' ? textOf(base.entries.get('file')) : undefined
  const { loader, variables } = extension
  const from =
    other === undefined ? services : await servicesIn(beside(file, other, base.at, field), loader, variables, base.at)
  if (!from.has(target)) throw wrong(base.at, field, `names the service ${target}, which does not exist`)
  const parent = await extended(from, target, { ...extension, path: [...extension.path, step] })
  const own = new Map([...service.entries].filter(([key]) => key !== 'extends'))
  return { ...(merge(parent, { ...service, entries: own }, ['services', name]) as Mapping), at: service.at }
}

const nowhere: Place = { file: '', line: 1, column: 1 }

async function servicesIn(
  path: string,
  loader: Loader,
  variables: Variables,
  by: Place,
): Promise<ReadonlyMap<string, Tree>> {
  return sectionOf(await fileTree(path, loader, variables, by), 'services')
}

/** Returns a top-level section of a compose file; empty if it is absent. */
function sectionOf(root: Mapping, name: string): ReadonlyMap<string, Tree> {
  const section = root.entries.get(name)
  if (section === undefined || (section.kind === 'scalar' && section.value === null)) return new Map()
  if (section.kind !== 'map') throw wrong(section.at, name, 'must be a map')
  return section.entries
}

const textOf = (tree: Tree | undefined) => (tree?.kind === 'scalar' && tree.value !== null ? tree.text : undefined)
const wrong = (at: Place, field: string, message: string) => new Invalid([{ at, field, message }])
