/** Maps a model of compose files to the apps of a stack. */
import type { EffectiveFile } from '../appfile/effective.ts'
import { closestTo } from '../lib/closest.ts'
import type { BuildOptions } from './build.ts'
import { readEnvFile } from './env-file.ts'
import { Invalid } from './faults.ts'
import { filesOf } from './files.ts'
import { withVolumesFrom } from './inherit.ts'
import { beside, type Files, type Model } from './load.ts'
import { byPlace, type Field, type Finding, flag, member, newReader, oneOrMany, type Reader, text } from './reader.ts'
import { asReleases } from './releases.ts'
import { type Service, serviceOf } from './service.ts'
import { together } from './together.ts'
import { folderVolume, type StackVolume, volumesOf } from './volumes.ts'

export interface Stack {
  readonly name: string
  /** The services, each after those on which it depends. */
  readonly services: readonly StackService[]
  readonly volumes: readonly StackVolume[]
  readonly findings: readonly Finding[]
}

export interface StackService {
  readonly name: string
  readonly app: EffectiveFile
  readonly build: BuildOptions | undefined
  /** Whether the program must complete before the services that depend on it start. */
  readonly isTask: boolean
}

export interface StackOptions {
  readonly name: string
  readonly profiles: readonly string[]
  /** Returns the app name for a service; default: the service's name. */
  readonly appName?: ((service: string) => string) | undefined
}

const topKeys = ['name', 'version', 'services', 'volumes', 'networks', 'configs', 'secrets', 'include', 'models']

/** Maps a model to a stack. @throws Invalid */
export async function stackOf(model: Model, files: Files, options: StackOptions): Promise<Stack> {
  const reader = newReader()
  for (const [key, tree] of model.others) {
    const meant = closestTo(key, topKeys)
    if (!topKeys.includes(key) && !key.startsWith('x-'))
      reader.faults.push({
        at: tree.at,
        field: key,
        message: meant === undefined ? 'is unknown' : `is unknown. Did you mean "${meant}"?`,
      })
  }
  const volumes = volumesOf(fieldOf(reader, 'volumes', model.volumes), options.name)
  const appName = options.appName ?? appNameOf
  const services = new Map<string, Service>()
  for (const [name, tree] of withVolumesFrom(model.services, reader)) {
    const field: Field = { reader, tree, path: `services.${name}` }
    if (!isActive(field, options.profiles)) continue
    const envFiles = await envFilesOf(field, model, files)
    const given = await filesOf(field, model, files)
    for (const [at, folder] of given.created) {
      const volume = folderVolume(options.name, folder)
      volumes.set(folder, volume)
      const message = `has the folder ${folder}, which does not exist or is empty: it becomes the volume ${volume.name}, which the service can write to`
      reader.findings.push({ level: 'differs', at, field: `${field.path}.volumes`, message })
    }
    const context = { stack: options.name, appName, volumes, envFiles, files: given, variable: model.variables.get }
    const service = serviceOf(name, field, context)
    if (service) services.set(name, checkedName(service, field))
  }
  if (services.size === 0 && reader.faults.length === 0)
    reader.faults.push({
      at: firstOf(model),
      field: 'services',
      message: 'has no service. Services with profiles need --profile',
    })
  checkNames([...services.values()], reader)
  const ordered = inOrder(await together(services, reader), reader)
  const apps = asReleases(ordered, reader)
  checkShared(apps, reader)
  for (const [name, at] of model.missing)
    reader.findings.push({ level: 'differs', at, field: name, message: 'is not set: its value is empty' })
  if (reader.faults.length > 0) throw new Invalid(reader.faults.toSorted(byPlace).slice(0, mostFaults))
  const used = new Set(apps.flatMap(({ app }) => app.volumes.map(({ name }) => name)))
  return {
    name: options.name,
    services: apps.map(({ name, app, build, isTask = false }) => ({ name, app, build, isTask })),
    volumes: [...volumes.values()].filter(({ name }) => used.has(name)),
    findings: reader.findings.toSorted(byPlace),
  }
}

const mostFaults = 50

const firstOf = ({ services }: Model) => services.values().next().value?.at ?? { file: '', line: 1, column: 1 }

const fieldOf = (reader: Reader, path: string, entries: Model['volumes']): Field => ({
  reader,
  path,
  tree: { kind: 'map', at: { file: '', line: 1, column: 1 }, entries },
})

/** Converts text to a name for apps with at most 40 characters; undefined if no character of it can be used. */
export function labelOf(text: string): string | undefined {
  const label = text
    .slice(0, 200)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|(?<!-)-+$/g, '')
    .slice(0, 40)
    .replace(/(?<!-)-+$/, '')
  return label === '' ? undefined : label
}
const appNameOf = (service: string) => labelOf(service) ?? service

function checkedName(service: Service, field: Field): Service {
  const { name, app } = service
  const { reader, tree } = field
  if (labelOf(app.app) !== app.app)
    reader.faults.push({ at: tree.at, field: field.path, message: 'must have letters or digits in its name' })
  else if (name !== app.app && labelOf(name) === app.app && name.toLowerCase() !== app.app)
    reader.findings.push({
      level: 'differs',
      at: tree.at,
      field: field.path,
      message: `becomes the app ${app.app}: use that name in addresses`,
    })
  return service
}

function checkNames(services: readonly Service[], reader: Reader): void {
  const names = new Map<string, string>()
  for (const { name, app, at } of services) {
    const other = names.get(app.app)
    if (other !== undefined)
      reader.faults.push({ at, field: `services.${name}`, message: `and ${other} would both be the app ${app.app}` })
    names.set(app.app, name)
  }
}

function isActive(service: Field, profiles: readonly string[]): boolean {
  const own = oneOrMany(member(service, 'profiles')).map(one => text(one) ?? '')
  return own.length === 0 || own.some(one => profiles.includes(one)) || profiles.includes('*')
}

async function envFilesOf(service: Field, model: Model, files: Files): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const one of oneOrMany(member(service, 'env_file'))) {
    const isMap = one.tree.kind === 'map'
    const name = text(isMap ? member(one, 'path') : one)
    if (name === undefined) continue
    const path = beside(one.tree.at.file, name, one.tree.at, one.path)
    const given = await files.read(path)
    const required = isMap ? member(one, 'required') : undefined
    if (given === undefined) {
      if (!required || flag(required))
        service.reader.faults.push({ at: one.tree.at, field: one.path, message: `names ${path}, which does not exist` })
      continue
    }
    for (const [key, value] of readEnvFile(given, path, model.variables)) {
      const set = value ?? model.variables.get(key)
      if (set !== undefined) found.set(key, set)
    }
  }
  return found
}

/** Sorts services so that each comes after those on which it depends. */
function inOrder(services: ReadonlyMap<string, Service>, reader: Reader): Service[] {
  const ordered = new Set<Service>()
  const visit = (service: Service, path: readonly string[]) => {
    if (ordered.has(service)) return
    for (const { service: name, isRequired, field } of service.needs) {
      const needed = services.get(name)
      const at = field.tree.at
      if (path.includes(name) || name === service.name)
        reader.faults.push({
          at,
          field: field.path,
          message: `depends on itself: ${[...path, service.name, name].join(' -> ')}`,
        })
      else if (needed) visit(needed, [...path, service.name])
      else if (isRequired)
        reader.faults.push({
          at,
          field: field.path,
          message: `names the service ${name}, which does not exist, or whose profile is not active`,
        })
    }
    ordered.add(service)
  }
  for (const service of services.values()) visit(service, [])
  return [...ordered]
}

/**
 * Reports volumes that several VMs would write to, which is not possible. A task does not count: it has completed, and
 * its volumes are detached, when the next service starts.
 */
function checkShared(services: readonly Service[], reader: Reader): void {
  const users = new Map<string, { readonly service: string; readonly isReadOnly: boolean }>()
  for (const { name, app, at, isTask } of services)
    for (const volume of app.volumes) {
      const other = users.get(volume.name)
      if (isTask && !other) continue
      if (other && !(other.isReadOnly && volume.read_only))
        reader.findings.push({
          level: 'unsupported',
          at,
          field: `services.${name}.volumes`,
          message:
            other.service === name
              ? `mounts the volume ${volume.name} twice: a volume has one mount point`
              : `has the volume ${volume.name} of ${other.service}: only one VM can use a writable volume`,
        })
      users.set(volume.name, { service: name, isReadOnly: volume.read_only })
    }
}
