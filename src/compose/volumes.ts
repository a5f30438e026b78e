/** Maps volumes, and the mounts of services. */
import { isAbsolute, join } from '../lib/posix-path.ts'
import type { FileVolume } from '../appfile/effective.ts'
import type { Place } from './faults.ts'
import { mountPointFault } from '../lib/mount-point.ts'
import {
  bytes,
  differs,
  faultOf,
  type Field,
  flag,
  items,
  member,
  members,
  number,
  oneOrMany,
  text,
  unsupported,
} from './reader.ts'

/** A volume in the project that a stack uses. */
export interface StackVolume {
  readonly name: string
  readonly sizeMib: number
  /** Whether the volume exists independently of the stack, which neither creates nor deletes it. */
  readonly isExternal: boolean
}

const defaultMib = 1024
const smallestMib = 16

export function volumesOf(field: Field | undefined, stack: string): Map<string, StackVolume> {
  const found = new Map<string, StackVolume>()
  for (const [key, one] of members(field)) {
    const empty = one.tree.kind === 'scalar' && one.tree.value === null
    const volume = empty ? undefined : one
    const external = member(volume, 'external')
    const isExternal = external !== undefined && (external.tree.kind === 'map' || flag(external))
    const name = text(member(volume, 'name')) ?? (isExternal ? key : `${stack}-${key}`)
    const driver = member(volume, 'driver')
    if (driver && text(driver) !== 'local') unsupported(driver, 'is not supported: volumes are disks on a host')
    const options = member(volume, 'driver_opts')
    if (text(member(options, 'device'))) unsupported(options!, 'is not supported: each volume is a new, empty disk')
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name))
      faultOf(
        one,
        `becomes the volume ${name}, whose name must have at most 63 letters, digits, dots, dashes and underscores`,
      )
    found.set(key, { name, sizeMib: sizeOf(volume, options), isExternal })
  }
  return found
}

function sizeOf(volume: Field | undefined, options: Field | undefined): number {
  const own = number(member(member(volume, 'x-mote'), 'size_mib'), smallestMib)
  const given = bytes(member(options, 'size'))
  return Math.round(own ?? (given === undefined ? defaultMib : Math.max(smallestMib, given / 2 ** 20)))
}

export interface Mount {
  readonly field: Field
  readonly type: string
  readonly source: string
  readonly target: string
  readonly isReadOnly: boolean
}

interface MountContext {
  readonly volumes: ReadonlyMap<string, StackVolume>
  /** Positions of the mounts whose files are copied into the VM (`ServiceFiles`). */
  readonly copied: ReadonlySet<Place>
  /** Missing folders that become volumes, by the position of their mount. */
  readonly created: ReadonlyMap<Place, string>
}

/** Returns the volume that replaces a folder that does not exist. */
export const folderVolume = (stack: string, folder: string): StackVolume => ({
  name: `${stack}-${folder.replaceAll(/[^A-Za-z0-9]+/g, '-').replaceAll(/^-+|(?<!-)-+$/g, '')}`
    .slice(0, 63)
    .replace(/(?<!-)-+$/, ''),
  sizeMib: defaultMib,
  isExternal: false,
})

export function mountsOf(service: Field, { volumes, copied, created }: MountContext): FileVolume[] {
  const found = new Map<string, FileVolume>()
  for (const one of items(member(service, 'volumes'))) {
    if (copied.has(one.tree.at)) continue
    const folder = created.get(one.tree.at)
    const given = mountOf(one)
    const mount =
      given && folder !== undefined ? { ...given, type: 'volume', source: folder, isReadOnly: false } : given
    const mapped = mount && fileVolume(service, mount, volumes)
    // If several mounts have the same path, the last one is used, because overrides come last.
    if (mapped) found.set(mapped.mount, mapped)
  }
  for (const one of oneOrMany(member(service, 'tmpfs')))
    differs(one, 'is ignored: the directory is on the disk of the VM, which is empty for each new version')
  return [...found.values()]
}

export function mountOf(field: Field): Mount | undefined {
  if (field.tree.kind === 'map') {
    const target = text(member(field, 'target'))
    if (target === undefined) {
      faultOf(field, 'needs a target')
      return undefined
    }
    const subpath = member(member(field, 'volume'), 'subpath')
    if (subpath) unsupported(subpath, 'is not supported: a whole volume is mounted')
    return {
      field,
      type: text(member(field, 'type')) ?? 'volume',
      source: text(member(field, 'source')) ?? '',
      target,
      isReadOnly: flag(member(field, 'read_only')),
    }
  }
  const given = text(field) ?? ''
  const [first = '', second, mode = ''] = given.split(':')
  const source = second === undefined ? '' : first
  const isPath = /^[./~\\]/.test(source) || given.includes('\\')
  const isReadOnly = mode.split(',').includes('ro')
  return { field, type: isPath ? 'bind' : 'volume', source, target: second ?? first, isReadOnly }
}

/**
 * Whether the mounted files are part of the build's folder. Such a mount is for development only, so that changed files
 * are used without a build.
 */
export function isOfBuild(service: Field, source: string): boolean {
  const build = member(service, 'build')
  if (!build) return false
  const given = build.tree.kind === 'scalar' ? build : member(build, 'context')
  const context = join('.', text(given) ?? '.')
  const path = join('.', source)
  return context === '.' || context === './' ? !path.startsWith('..') && !isAbsolute(path) : isWithin(path, context)
}
const isWithin = (path: string, tree: string) => `${path.replace(/\/$/, '')}/`.startsWith(`${tree.replace(/\/$/, '')}/`)

/** Files of the host that are only mounted to give a program the host's time zone. */
const clocks = ['/etc/localtime', '/etc/timezone']

/** Kernel modules and headers of the host, which VPN programs mount to load a module. */
const modules = ['/lib/modules', '/usr/src']

/** Files that each VM has itself, so that those of the host need not be mounted. */
const ownOfVm = ['/dev/null', '/dev/random', '/dev/urandom', '/dev/shm', '/dev/zero', '/etc/hosts', '/etc/resolv.conf']

function fileVolume(service: Field, mount: Mount, volumes: ReadonlyMap<string, StackVolume>): FileVolume | undefined {
  const { field, type, source, isReadOnly } = mount
  const target = mount.target.length > 1 ? mount.target.replace(/\/$/, '') : mount.target
  if (clocks.includes(target)) return void differs(field, 'is ignored: set the variable TZ for another time zone')
  if (type === 'bind' && [source, target].every(one => ownOfVm.includes(one)))
    return void differs(field, 'is ignored: the VM has its own')
  if (type === 'bind' && modules.includes(source) && source === target)
    return void differs(field, 'is ignored: the VM has a kernel of its own, which has its modules built in')
  if (type === 'tmpfs') return void differs(field, 'is ignored: the directory is on the disk of the VM')
  if (type !== 'volume') {
    if (isOfBuild(service, source))
      differs(field, 'is ignored: the image has what its Dockerfile copies. Deploy again after a change')
    else if (source.endsWith('docker.sock')) unsupported(field, 'is not supported: there is no Docker in the VMs')
    else
      unsupported(
        field,
        `is not supported: only files and small folders below that of the compose file are copied. Add ${source || 'it'} to the image with build, or use a named volume`,
      )
    return undefined
  }
  if (source === '')
    return void differs(
      field,
      'is on the disk of the VM, which is empty for each new version. Name the volume to keep its content',
    )
  const volume = volumes.get(source)
  if (!volume) return void faultOf(field, `names the volume ${source}, which is not in "volumes"`)
  const fault = mountPointFault(target)
  if (fault !== undefined) return void unsupported(field, `cannot be mounted there: the path ${fault}`)
  return { name: volume.name, mount: target, size_mib: volume.sizeMib, read_only: isReadOnly }
}
