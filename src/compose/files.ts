/** Maps a service's configs, secrets and bind mounts in the project folder to files of VMs. */
import { contentFile, type GivenFile, filePathFault } from '../appfile/files.ts'
import { dirname, isAbsolute, join } from '../lib/posix-path.ts'
import type { Place } from './faults.ts'
import type { Files, FolderEntry, Model } from './load.ts'
import { differs, faultOf, type Field, items, member, text, unsupported } from './reader.ts'
import { isOfBuild, type Mount, mountOf } from './volumes.ts'

/** Limits on the files of an app, as in the API: number, and total size in bytes. */
const mostFiles = 64
const mostBytes = 512 << 10

export interface ServiceFiles {
  readonly files: readonly GivenFile[]
  /** Positions, in the compose file, of the mounts whose files are copied into the VM. */
  readonly mounts: ReadonlySet<Place>
  /**
   * Source folders of bind mounts that do not exist, by the position of the mount. Docker would create an empty folder.
   */
  readonly created: ReadonlyMap<Place, string>
}

/** Reads the contents of all files that a service gets from configs, secrets and bind mounts. */
export async function filesOf(service: Field, model: Model, files: Files): Promise<ServiceFiles> {
  const found = new Map<string, GivenFile>()
  const mounts = new Set<Place>()
  const created = new Map<Place, string>()
  const reading: Reading = { service, model, files, add: file => void found.set(file.path, file) }
  for (const one of items(member(service, 'volumes'))) {
    if (await mounted(one, reading)) mounts.add(one.tree.at)
    else {
      const folder = await missingFolder(one, reading)
      if (folder !== undefined) created.set(one.tree.at, folder)
    }
  }
  for (const kind of ['configs', 'secrets'] as const)
    for (const one of items(member(service, kind))) await named(kind, one, reading)
  const all = [...found.values()]
  checkLimits(all, service)
  return { files: all, mounts, created }
}

interface Reading {
  readonly service: Field
  readonly model: Model
  readonly files: Files
  add(file: GivenFile): void
}

function checkLimits(files: readonly GivenFile[], service: Field): void {
  const total = files.reduce((sum, { content }) => sum + (content?.length ?? 0), 0)
  if (files.length > mostFiles || total > mostBytes)
    unsupported(
      service,
      `has ${files.length} files with ${total} bytes in "configs", "secrets" and "volumes", but at most ${mostFiles} files with ${mostBytes} bytes in total fit. Add them to the image with build`,
    )
}

const sections = {
  configs: { isSecret: false, target: (name: string) => `/${name}` },
  secrets: { isSecret: true, target: (name: string) => `/run/secrets/${name}` },
} as const

/** Adds a config or secret to which the service refers by name. */
async function named(kind: keyof typeof sections, field: Field, reading: Reading): Promise<void> {
  const isMap = field.tree.kind === 'map'
  const name = text(isMap ? member(field, 'source') : field)
  if (name === undefined) return
  const section = reading.model.others.get(kind)
  const entries = section?.kind === 'map' ? section.entries : undefined
  const tree = entries?.get(name)
  if (!tree) return void faultOf(field, `names ${name}, which is not in "${kind}"`)
  const { isSecret, target } = sections[kind]
  for (const key of ['uid', 'gid']) {
    const owner = member(field, key)
    if (isMap && owner) differs(owner, 'is ignored: the user of the program owns the file')
  }
  const given = (isMap ? text(member(field, 'target')) : undefined) ?? name
  const path = isAbsolute(given) ? given : target(given)
  const content = await contentOf({ ...field, tree, path: `${kind}.${name}` }, reading)
  if (content) await addFile({ field, path, mode: modeOf(member(field, 'mode'), isMap), isSecret }, content, reading)
}

function modeOf(field: Field | undefined, isMap: boolean): string {
  const given = (isMap ? text(field) : undefined) ?? '0444'
  const digits = /^0?o?([0-7]{3})$/.exec(given)?.[1]
  if (digits === undefined && field) faultOf(field, 'must be three octal digits, such as 0440')
  return `0${digits ?? '444'}`
}

/** Returns the content of a top-level config or secret. */
async function contentOf(field: Field, { model, files }: Reading): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const external = member(field, 'external')
  if (external && text(external) !== 'false')
    return void unsupported(external, 'is not supported: give its file, environment or content')
  const content = member(field, 'content')
  if (content) return bytesOf(text(content) ?? '')
  const variable = member(field, 'environment')
  if (variable) {
    const value = model.variables.get(text(variable) ?? '')
    return value === undefined ? void faultOf(variable, `names ${text(variable)}, which is not set`) : bytesOf(value)
  }
  const file = member(field, 'file')
  if (!file) return void faultOf(field, 'needs a file, environment or content')
  const path = besidePath(file, text(file) ?? '')
  const found = await files.bytes?.(path)
  if (!files.bytes) return void unsupported(file, 'is not supported here: files of this computer cannot be read')
  return found ?? void faultOf(file, `names ${path}, which is not a file`)
}

const besidePath = (field: Field, name: string) => (isAbsolute(name) ? name : join(dirname(field.tree.at.file), name))

/**
 * Directories of the operating system. A missing folder in them never becomes a volume, because what they contain
 * depends on the computer.
 */
const ofHost = ['/boot', '/dev', '/lib', '/proc', '/run', '/sys', '/tmp', '/usr/src', '/var/lib/docker', '/var/run']

/** Returns the source of a bind mount outside the project folder, if it may become a volume. */
function outsidePath({ source }: Mount, { model }: Reading): string | undefined {
  const home = model.variables.get('HOME')
  const path = source.startsWith('~/') && home !== undefined ? join(home, source.slice(2)) : source
  const isOfHost = ofHost.some(tree => path === tree || path.startsWith(`${tree}/`))
  return isAbsolute(path) && path !== '/' && !isOfHost ? path : undefined
}

/** Returns the source of a bind mount if it is in the project folder. */
function boundPath(field: Field, mount: Mount): string | undefined {
  if (mount.type !== 'bind' || !/^\.{0,2}[\w/@+-]/.test(mount.source)) return undefined
  if (isAbsolute(mount.source) || mount.source.startsWith('~')) return undefined
  const source = besidePath(field, mount.source)
  // A relative source is relative to the folder of the file that contains the mount. That file may be an included one
  // or an override in another folder.
  const isOutside = isAbsolute(source) ? !source.startsWith(`${dirname(field.tree.at.file)}/`) : source.startsWith('..')
  return isOutside ? undefined : source
}

/**
 * Matches names of files such as `a.conf` or `a.sock`, but not of folders such as `conf.d` or `.cache`. Docker creates
 * a folder in place of a missing file, which is hardly ever intended, so such a mount becomes no volume.
 */
const fileName = /[^/]\.(?!d$)[A-Za-z][A-Za-z0-9]{0,5}$/

/** Returns the source folder of a bind mount if it does not exist or is empty, otherwise undefined. */
async function missingFolder(field: Field, reading: Reading): Promise<string | undefined> {
  const { files, service } = reading
  const mount = mountOf(field)
  if (!mount || mount.type !== 'bind' || isOfBuild(service, mount.source)) return undefined
  const source = boundPath(field, mount) ?? (mount.isReadOnly ? undefined : outsidePath(mount, reading))
  if (source === undefined) return undefined
  if (fileName.test(mount.source) || fileName.test(mount.target)) return undefined
  const found = await files.list?.(source)
  return files.list && (found === undefined || (found.isFolder && found.entries.length === 0)) ? source : undefined
}

/** Copies the files of a bind mount in the project folder. @returns false if the mount is of another kind */
async function mounted(field: Field, reading: Reading): Promise<boolean> {
  const { files, service } = reading
  const mount = mountOf(field)
  const content = field.tree.kind === 'map' ? member(field, 'content') : undefined
  if (mount && content) {
    await addFile({ field, path: mount.target, mode: '0644', isSecret: false }, bytesOf(text(content) ?? ''), reading)
    return true
  }
  const source = mount && boundPath(field, mount)
  if (!mount || source === undefined || !files.list) return false
  const found = await files.list(source)
  if (!found || found.entries.length === 0) return false
  if (found.isFolder && isOfBuild(service, mount.source)) return false
  const target = mount.target.length > 1 ? mount.target.replace(/\/$/, '') : mount.target
  if (found.entries.length > mostFiles) {
    unsupported(field, `exceeds the limit of ${mostFiles} files. Add the files to the image with build`)
    return true
  }
  for (const entry of found.entries) await copied(field, entry, { source, target, isFolder: found.isFolder }, reading)
  if (!mount.isReadOnly)
    differs(
      field,
      'is copied with each deployment: changes that programs make are lost with the VM. A named volume keeps them',
    )
  return true
}

interface Copy {
  readonly source: string
  readonly target: string
  readonly isFolder: boolean
}

async function copied(field: Field, entry: FolderEntry, copy: Copy, reading: Reading): Promise<void> {
  const content = await reading.files.bytes?.(copy.isFolder ? join(copy.source, entry.path) : copy.source)
  const path = copy.isFolder ? `${copy.target === '/' ? '' : copy.target}/${entry.path}` : copy.target
  const mode = entry.isExecutable ? '0755' : '0644'
  if (content) await addFile({ field, path, mode, isSecret: false }, content, reading)
}

interface Target {
  readonly field: Field
  readonly path: string
  readonly mode: string
  readonly isSecret: boolean
}

async function addFile(
  { field, path, mode, isSecret }: Target,
  content: Uint8Array<ArrayBuffer>,
  reading: Reading,
): Promise<void> {
  const fault = filePathFault(path)
  if (fault !== undefined) return void unsupported(field, `cannot be at ${path}: the path ${fault}`)
  reading.add(isSecret ? { path, mode, content, isSecret } : await contentFile(path, mode, content))
}

const bytesOf = (content: string) => new TextEncoder().encode(content)
