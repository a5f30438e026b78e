/** Maps a service to an app. */
import type { EffectiveFile, FileVolume, Worker } from '../appfile/effective.ts'
import { closestTo } from '../lib/closest.ts'
import { type BuildOptions, buildOf } from './build.ts'
import type { Place } from './faults.ts'
import type { ServiceFiles } from './files.ts'
import { healthPath } from './health.ts'
import { allKeys, different, impossible } from './keys.ts'
import { type PortChoice, portOf } from './ports.ts'
import {
  argv,
  bytes,
  differs,
  faultOf,
  type Field,
  flag,
  member,
  members,
  number,
  oneOrMany,
  pairs,
  text,
  unsupported,
} from './reader.ts'
import { memoryFor } from './sizes.ts'
import { mountsOf, type StackVolume } from './volumes.ts'

export interface Service {
  readonly name: string
  readonly at: Place
  readonly app: EffectiveFile
  /** How to build the image from a folder; undefined if the service uses an existing image. */
  readonly build: BuildOptions | undefined
  readonly needs: readonly Need[]
  /**
   * Replaces the entrypoint of the image; undefined or empty: the image keeps its own, and `command` has its arguments.
   */
  readonly entrypoint: readonly string[] | undefined
  readonly command: readonly string[] | undefined
  /** Whether the service must complete before those that depend on it start. */
  readonly isTask?: boolean
}

export interface Need {
  readonly service: string
  readonly condition: string
  readonly isRequired: boolean
  readonly field: Field
}

export interface ServiceContext {
  readonly stack: string
  readonly appName: (service: string) => string
  readonly volumes: ReadonlyMap<string, StackVolume>
  /** Variables from the service's `env_file` files. */
  readonly envFiles: ReadonlyMap<string, string>
  readonly files: ServiceFiles
  /** Returns the value of a variable for which the compose file gives only the name. */
  readonly variable: (name: string) => string | undefined
}

/**
 * The platform's default port. A worker also gets this port, so that a comparison with the installed app, which has it,
 * finds no change.
 */
const defaultPort = 8080
const drainSeconds = 30

export function serviceOf(name: string, field: Field, context: ServiceContext): Service | undefined {
  checkKeys(field)
  const own = member(field, 'x-mote')
  checkOwn(own)
  const build = buildOf(field)
  const image = text(member(field, 'image'))
  if (!build && image === undefined) {
    faultOf(field, 'needs an image or a build')
    return undefined
  }
  const environment = environmentOf(field, context)
  const choice = portOf(field, environment)
  const entrypoint = argv(member(field, 'entrypoint'))
  const command = argv(member(field, 'command'))
  const volumes = mountsOf(field, {
    volumes: context.volumes,
    copied: context.files.mounts,
    created: context.files.created,
  })
  const secrets = oneOrMany(member(own, 'secrets')).map(one => text(one) ?? '')
  return {
    name,
    at: field.tree.at,
    entrypoint,
    command,
    build: build?.options,
    needs: needsOf(field),
    app: {
      app: context.appName(name),
      stack: context.stack,
      kind: choice.kind,
      domains: [],
      build: build?.source ?? { image: image ?? '' },
      ...(build?.inputs ? { inputs: build.inputs } : {}),
      env: Object.fromEntries([...environment].filter(([key]) => key !== 'PORT')),
      secrets,
      processes: {
        web: {
          ...programOf(entrypoint, command),
          ...sizesOf(field),
          replicas: replicasOf(field, volumes),
          ...restartsOf(field),
          port: choice.kind === 'web' ? choice.port : defaultPort,
          scale_to_zero: choice.kind === 'web' && flag(member(own, 'scale_to_zero')),
          drain_seconds: drainSeconds,
          health: { path: healthOf(field, choice) },
        },
      },
      workers: {},
      volumes,
      ...(context.files.files.length > 0 ? { files: context.files.files } : {}),
    },
  }
}

function checkKeys(field: Field): void {
  for (const [key, value] of members(field)) {
    if (value.tree.kind === 'scalar' && value.tree.value === null) continue
    const known = different[key]
    if (Object.hasOwn(impossible, key) && isGiven(value)) unsupported(value, impossible[key] ?? '')
    else if (known !== undefined && isGiven(value)) differs(value, known)
    else if (!allKeys.includes(key) && !key.startsWith('x-')) {
      const meant = closestTo(key, allKeys)
      faultOf(value, meant === undefined ? 'is unknown' : `is unknown. Did you mean "${meant}"?`)
    }
  }
  const mode = member(field, 'network_mode')
  const network = text(mode)
  if (mode && network === 'host')
    differs(
      mode,
      `is the network of the VM: other services reach each of its ports as ${field.path.replace('services.', '')}:<port>, and it reaches them by their names instead of localhost. Set x-mote.http to the port of its requests`,
    )
  else if (mode && network !== undefined && !['bridge', 'default'].includes(network))
    unsupported(mode, 'is not supported: a service has its own address in the private network of the project')
  for (const [, one] of member(field, 'networks')?.tree.kind === 'map' ? members(member(field, 'networks')) : []) {
    const aliases = member(one, 'aliases')
    if (aliases && isGiven(aliases)) differs(aliases, 'is ignored: a service has only its own name')
  }
  const platform = member(field, 'platform')
  if (platform && !/^linux(\/|$)/.test(text(platform) ?? '')) unsupported(platform, 'is not supported: VMs run Linux')
}

/** Whether a setting has an effect: its value is neither empty nor false. */
function isGiven({ tree }: Field): boolean {
  if (tree.kind === 'scalar') return tree.text !== '' && tree.text !== 'false'
  return tree.kind === 'list' ? tree.items.length > 0 : tree.entries.size > 0
}

const ownKeys = ['http', 'health', 'secrets', 'scale_to_zero', 'disk_mib', 'kind']
function checkOwn(own: Field | undefined): void {
  for (const [key, value] of members(own))
    if (!ownKeys.includes(key)) faultOf(value, `is unknown. x-mote may have: ${ownKeys.join(', ')}`)
}

/** Returns the app's command. If the compose file has no entrypoint, the image keeps its own. */
function programOf(entrypoint: readonly string[] | undefined, command: readonly string[] | undefined) {
  if (entrypoint && entrypoint.length > 0) return { command: [...entrypoint, ...(command ?? [])] }
  return { command: [], ...(command && command.length > 0 ? { arguments: command } : {}) }
}

const variableName = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/

function environmentOf(field: Field, { envFiles, variable }: ServiceContext): Map<string, string> {
  const found = new Map(envFiles)
  for (const [name, one] of pairs(member(field, 'environment'))) {
    const value = one.value ?? variable(name)
    if (!variableName.test(name))
      unsupported(one, 'is not a name of a variable: use letters, digits, underscores, dots and dashes')
    else if (value !== undefined) found.set(name, value)
  }
  return new Map([...found].filter(([name]) => variableName.test(name)))
}

function needsOf(field: Field): Need[] {
  const given = member(field, 'depends_on')
  if (given?.tree.kind === 'list')
    return oneOrMany(given).map(one => ({
      service: text(one) ?? '',
      condition: 'service_started',
      isRequired: true,
      field: one,
    }))
  return members(given).map(([service, one]) => {
    const required = member(one, 'required')
    return {
      service,
      condition: text(member(one, 'condition')) ?? 'service_started',
      isRequired: required ? flag(required) : true,
      field: one,
    }
  })
}

function sizesOf(field: Field) {
  const resources = member(member(field, 'deploy'), 'resources')
  const limits = member(resources, 'limits')
  const reservations = member(resources, 'reservations')
  const devices = member(reservations, 'devices')
  if (devices && isGiven(devices)) unsupported(devices, 'is not supported: VMs have no devices of the host')
  const memory =
    member(limits, 'memory') ??
    member(field, 'mem_limit') ??
    member(reservations, 'memory') ??
    member(field, 'mem_reservation')
  const cpus = member(limits, 'cpus') ?? member(field, 'cpus') ?? member(reservations, 'cpus')
  const disk = number(member(member(field, 'x-mote'), 'disk_mib'), 64)
  return { vcpus: vcpusOf(cpus), memory_mib: memoryOf(memory), disk_mib: Math.round(disk ?? 1024) }
}

function vcpusOf(field: Field | undefined): 1 | 2 | 3 | 4 {
  const wanted = Math.ceil(number(field) ?? 1)
  if (field && wanted > 4) differs(field, 'is more than the 4 CPUs that a VM can have: it gets 4')
  return ([1, 2, 3, 4] as const)[Math.min(4, Math.max(1, wanted)) - 1] ?? 1
}

function memoryOf(field: Field | undefined) {
  const wanted = (bytes(field) ?? 0) / 2 ** 20
  const size = memoryFor(wanted)
  if (field && size === undefined) differs(field, 'is more than the 4096 MiB that a VM can have: it gets 4096 MiB')
  return size ?? 4096
}

function replicasOf(field: Field, volumes: readonly FileVolume[]): number {
  const deploy = member(field, 'deploy')
  const mode = member(deploy, 'mode')
  if (mode && text(mode) !== 'replicated') differs(mode, 'is ignored: the service has the given number of replicas')
  const given = member(deploy, 'replicas') ?? member(field, 'scale')
  const replicas = Math.round(number(given) ?? 1)
  if (given && replicas > 1 && volumes.some(one => !one.read_only)) {
    unsupported(given, 'is not supported with a writable volume: only one VM can use it')
    return 1
  }
  if (given && (replicas > 100 || replicas < 1)) {
    differs(given, 'must be 1 to 100 here')
    return Math.min(100, Math.max(1, replicas))
  }
  return replicas
}

/**
 * Returns the restart policy. If the file has none, the program is always restarted. In Compose it would not be, but
 * users expect a server to stay up.
 */
function restartsOf(field: Field): Pick<Worker, 'restart' | 'max_restarts'> {
  const policy = member(member(field, 'deploy'), 'restart_policy')
  const [named = '', attempts = ''] = (text(member(field, 'restart')) ?? '').split(':')
  const condition = policy ? (text(member(policy, 'condition')) ?? 'any') : named
  const limit = policy ? number(member(policy, 'max_attempts')) : attempts === '' ? undefined : Number(attempts)
  const isLimited = limit !== undefined && Number.isInteger(limit) && limit >= 0
  return {
    ...(condition === 'on-failure' ? { restart: condition } : {}),
    ...(condition === 'no' || condition === 'none' ? { restart: 'never' } : {}),
    ...(isLimited ? { max_restarts: Math.min(limit, 100) } : {}),
  }
}

/** Returns the path that must respond before a new version gets requests. */
function healthOf(field: Field, choice: PortChoice): string {
  const own = text(member(member(field, 'x-mote'), 'health'))
  if (own?.startsWith('/')) return own
  const check = member(field, 'healthcheck')
  if (!check || flag(member(check, 'disable'))) return '/'
  const test = member(check, 'test')
  const words = test?.tree.kind === 'list' ? oneOrMany(test).map(one => text(one) ?? '') : [text(test) ?? '']
  if (!test || words[0] === 'NONE') return '/'
  if (choice.kind === 'worker') {
    differs(test, 'is ignored: a service without HTTP is healthy once its program has run for two seconds')
    return '/'
  }
  const path = healthPath(words.join(' '), choice.port)
  if (path === undefined)
    differs(
      test,
      `is ignored: instead, GET / on port ${choice.port} must answer 2xx or 3xx. Set x-mote.health for another path`,
    )
  return path ?? '/'
}
