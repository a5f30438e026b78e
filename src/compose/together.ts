/**
 * Merges services that write to the same volume into one VM, because only one VM can use a writable volume. They must
 * have the same image.
 */
import type { EffectiveFile, FileVolume } from '../appfile/effective.ts'
import { contentFile, type GivenFile } from '../appfile/files.ts'
import { maxPrograms, programsPath } from '../lib/vm-programs.ts'
import type { Reader } from './reader.ts'
import { isSameImage } from './releases.ts'
import type { Need, Service } from './service.ts'
import { memoryFor } from './sizes.ts'

/** Returns the services without those that run in the VM of another service. */
export async function together(services: ReadonlyMap<string, Service>, reader: Reader): Promise<Map<string, Service>> {
  const merged = new Map([...services].map(([name, service]) => [name, withTasks(service, services)]))
  const ending = new Set(
    [...merged.values()].flatMap(({ needs }) =>
      needs.filter(({ condition }) => condition === 'service_completed_successfully').map(need => need.service),
    ),
  )
  const mains = new Map<string, string>()
  for (const group of groupsOf([...merged.values()], ending)) {
    const whole = await wholeOf(group, ending, reader)
    if (!whole) continue
    for (const { name } of group) if (name !== whole.name) mains.set(name, whole.name)
    for (const { name } of group) merged.delete(name)
    merged.set(whole.name, whole)
  }
  for (const [name, service] of merged) {
    const { links } = oneMountEach([service])
    const whole = links.length > 0 ? await mergedService(service, [], ending, reader) : service
    merged.set(name, renamed(whole, mains, reader))
  }
  return merged
}

/**
 * If a service shares a volume with another one that is never restarted, makes it wait until that one has completed: it
 * prepares the volume, and only one VM can use the volume.
 */
function withTasks(service: Service, services: ReadonlyMap<string, Service>): Service {
  const prepares = ({ service: name, condition }: Need) => {
    const other = services.get(name)
    return (
      condition === 'service_started' &&
      other?.app.processes.web.restart === 'never' &&
      other.app.volumes.some(one => service.app.volumes.some(own => own.name === one.name))
    )
  }
  const needs = service.needs.map(need =>
    prepares(need) ? { ...need, condition: 'service_completed_successfully' } : need,
  )
  return { ...service, needs }
}

/** Returns groups of services with the same image that share a volume which at least one of them writes to. */
function groupsOf(services: readonly Service[], ending: ReadonlySet<string>): Service[][] {
  const groups: Service[][] = []
  const names = new Set(services.flatMap(({ app }) => app.volumes.map(({ name }) => name)))
  for (const volume of names) {
    const users = services.filter(({ app }) => app.volumes.some(one => one.name === volume))
    if (users.length < 2 || users.every(({ app }) => isReadOnly(app, volume))) continue
    const [first] = users.filter(({ name }) => !ending.has(name))
    // A service with another image may use the volume if it completes before the others start.
    const members = users.filter(one => first && (isSameImage(one, first) || !ending.has(one.name)))
    if (members.length < 2 || !first || !members.every(one => isSameImage(one, first))) continue
    const others = groups.filter(group => group.some(one => members.includes(one)))
    for (const other of others) groups.splice(groups.indexOf(other), 1)
    groups.push([...new Set([...others.flat(), ...members])])
  }
  // In each group, the services have the order of the compose file.
  return groups.map(group => services.filter(one => group.includes(one)))
}

const isReadOnly = ({ volumes }: EffectiveFile, name: string) =>
  volumes.every(volume => volume.name !== name || volume.read_only)

async function wholeOf(
  group: readonly Service[],
  ending: ReadonlySet<string>,
  reader: Reader,
): Promise<Service | undefined> {
  const lasting = group.filter(({ name }) => !ending.has(name))
  const web = lasting.filter(({ app }) => app.kind !== 'worker')
  const main = web[0] ?? lasting[0]
  if (!main) return undefined
  const others = group.filter(one => one !== main)
  const refuse = (service: Service, message: string) =>
    void reader.findings.push({
      level: 'unsupported',
      at: service.at,
      field: `services.${service.name}`,
      message: `shares a writable volume with ${main.name}, so it runs in the same VM: ${message}`,
    })
  if (web[1]) return refuse(web[1], 'only one of them can get HTTP requests. Set x-mote.http to false for the other')
  if (others.length > maxPrograms) return refuse(main, `at most ${maxPrograms} programs can run beside it`)
  for (const other of others) {
    const fault = clashOf(main, other) ?? (other.app.processes.web.replicas > 1 ? 'it cannot have replicas' : undefined)
    if (fault !== undefined) return refuse(other, fault)
  }
  for (const { name, at } of others)
    reader.findings.push({
      level: 'differs',
      at,
      field: `services.${name}`,
      message: ending.has(name)
        ? `runs in the VM of ${main.name} before it, at each start, because they share a volume`
        : `runs in the VM of ${main.name}, because they share a volume: there is no app ${name}, and its lines in the log of ${main.name} start with "${name} |"`,
    })
  return mergedService(main, others, ending, reader)
}

/** Returns why the two services cannot run in one VM; undefined if they can. */
function clashOf({ app: main }: Service, { app }: Service): string | undefined {
  for (const volume of app.volumes) {
    const there = main.volumes.find(one => one.mount === volume.mount)
    if (there && there.name !== volume.name) return `they mount different volumes at ${volume.mount}`
  }
  const fileText = ({ mode, variable, sha256, isSecret }: GivenFile) => `${mode} ${variable} ${sha256} ${isSecret}`
  for (const file of app.files ?? []) {
    const there = (main.files ?? []).find(({ path }) => path === file.path)
    if (there && fileText(there) !== fileText(file)) return `they have different files at ${file.path}`
  }
  const secret = app.secrets?.find(name => app.env[name] !== undefined && app.env[name] !== main.env[name])
  return secret === undefined ? undefined : `the secret ${secret} must be a variable of both, with the same value`
}

async function mergedService(
  main: Service,
  others: readonly Service[],
  ending: ReadonlySet<string>,
  reader: Reader,
): Promise<Service> {
  const all = [main, ...others]
  const names = new Set(all.map(({ name }) => name))
  const web = all.map(({ app }) => app.processes.web)
  const sum = (values: readonly number[]) => values.reduce((total, one) => total + one, 0)
  const vcpus = Math.min(4, sum(web.map(one => one.vcpus)))
  const { volumes, links } = oneMountEach(all)
  for (const { path, to } of links) noteLink(main, path, to, reader)
  const described = {
    programs: others.map(one => programOf(main, one, ending.has(one.name))),
    ...(others.length > 0 ? { names: others.map(({ name }) => name) } : {}),
    ...(links.length > 0 ? { links } : {}),
  }
  const file = await contentFile(programsPath, '0400', new TextEncoder().encode(`${JSON.stringify(described)}\n`))
  const files = new Map(all.flatMap(({ app }) => app.files ?? []).map(one => [one.path, one]))
  return {
    ...main,
    needs: all.flatMap(({ needs }) => needs).filter(({ service }) => !names.has(service) || others.length === 0),
    app: {
      ...main.app,
      secrets: [...new Set(all.flatMap(({ app }) => app.secrets ?? []))],
      processes: {
        web: {
          ...main.app.processes.web,
          vcpus: ([1, 2, 3, 4] as const)[vcpus - 1] ?? 1,
          memory_mib: memoryFor(sum(web.map(one => one.memory_mib))) ?? 4096,
          disk_mib: Math.max(...web.map(one => one.disk_mib)),
        },
      },
      volumes,
      files: [...files.values(), file],
    },
  }
}

interface Link {
  readonly path: string
  readonly to: string
}

/** Returns each volume once, and symbolic links for its other mount points, because a VM mounts a volume only once. */
function oneMountEach(services: readonly Service[]): { readonly volumes: FileVolume[]; readonly links: Link[] } {
  const volumes = new Map<string, FileVolume>()
  const links = new Map<string, Link>()
  for (const volume of services.flatMap(({ app }) => app.volumes)) {
    const known = volumes.get(volume.name)
    if (known && known.mount !== volume.mount) links.set(volume.mount, { path: volume.mount, to: known.mount })
    volumes.set(volume.name, { ...(known ?? volume), read_only: volume.read_only && (known?.read_only ?? true) })
  }
  return { volumes: [...volumes.values()], links: [...links.values()] }
}

function noteLink({ name, at }: Service, path: string, to: string, reader: Reader): void {
  const isNested = `${path}/`.startsWith(`${to}/`) || `${to}/`.startsWith(`${path}/`)
  const message = isNested
    ? `mounts one volume at ${to} and at ${path}, of which one is within the other`
    : `has a link at ${path} to ${to}, because a volume has one mount point`
  reader.findings.push({ level: isNested ? 'unsupported' : 'differs', at, field: `services.${name}.volumes`, message })
}

function programOf({ app: main }: Service, { name, app, entrypoint, command }: Service, before: boolean) {
  const changed = Object.entries(app.env).filter(([key, value]) => main.env[key] !== value)
  const absent = Object.keys(main.env).filter(key => app.env[key] === undefined)
  const environment = Object.fromEntries([...changed, ...absent.map(key => [key, null] as const)])
  const { restart } = app.processes.web
  return {
    name,
    ...(entrypoint && entrypoint.length > 0
      ? { command: [...entrypoint, ...(command ?? [])] }
      : command && command.length > 0
        ? { arguments: command }
        : {}),
    ...(Object.keys(environment).length > 0 ? { environment } : {}),
    ...(restart ? { restart } : {}),
    ...(before ? { before } : {}),
  }
}

/**
 * Replaces the names of services that run in another service's VM by the name of that service: in `depends_on`, and
 * where variables contain them as hostnames.
 */
function renamed(service: Service, mains: ReadonlyMap<string, string>, reader: Reader): Service {
  const needs = service.needs.flatMap((need): Need[] => {
    const main = mains.get(need.service)
    if (main === undefined) return [need]
    return main === service.name ? [] : [{ ...need, service: main, condition: 'service_healthy' }]
  })
  const env = { ...service.app.env }
  const note = (level: 'differs' | 'unsupported', message: string) =>
    void reader.findings.push({ level, at: service.at, field: `services.${service.name}`, message })
  for (const [name, main] of mains) {
    if (main === service.name) continue
    const host = hostPattern(name)
    const there = `${name}, which runs in the VM of ${main}`
    if ([...(service.entrypoint ?? []), ...(service.command ?? [])].some(word => word.search(host) >= 0))
      note('unsupported', `has the address of ${there}, in its command: use ${main} instead`)
    for (const [variable, value] of Object.entries(env)) {
      if (value.search(host) < 0) continue
      env[variable] = value.replaceAll(host, main)
      note('differs', `has the address of ${there}, in ${variable}: it is replaced by ${main}`)
    }
  }
  return { ...service, needs, app: { ...service.app, env } }
}

/** Returns a pattern that matches the name where it is a hostname: before a port, or after a URL scheme. */
function hostPattern(name: string): RegExp {
  const plain = name.replaceAll(/[.+]/g, '\\$&')
  return new RegExp(`(?<=^|[/@,=\\s])${plain}(?=:\\d)|(?<=//(?:[^/\\s]*@)?)${plain}(?=[/:\\s]|$)`, 'g')
}
