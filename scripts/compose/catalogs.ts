/**
 * Reads the stacks in a folder: compose files, or templates of Dokploy and Coolify, with the files, variables and
 * ports that these platforms add to a compose file.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { parse } from '@decimalturn/toml-patch'
import { isScalar, parse as parseYaml, parseDocument, visit } from 'yaml'
import { objectOr, stringOr } from '../../src/agent/build/plan/project.ts'
import type { Files } from '../../src/compose/load.ts'

export interface CatalogStack {
  /** Path of the stack's file relative to the searched folder. */
  readonly name: string
  readonly paths: readonly string[]
  readonly files: Files
  readonly environment: (name: string) => string | undefined
}

const homeOnly = (name: string) => (name === 'HOME' ? '/home/someone' : undefined)

const composeName = /^(?:docker-)?compose\.ya?ml$/

/** Finds the stacks of a folder. If no file has a usual compose file name, every YAML file is a Coolify template. */
export function stacksOf(root: string, local: Files): CatalogStack[] {
  const paths = readdirSync(root, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .sort()
  const named = paths.filter(path => composeName.test(basename(path)))
  const found = named.length > 0 ? named : paths.filter(path => /\.ya?ml$/.test(path))
  return found.map(path => {
    const name = relative(root, path)
    const template = join(dirname(path), 'template.toml')
    if (existsSync(template)) return ofDokploy(name, path, template)
    return named.length > 0 ? { name, paths: [path], files: local, environment: homeOnly } : ofCoolify(name, path)
  })
}

/** A second compose file, which adds the HTTP port of each service (`x-mote`). */
const portsFile = (ports: ReadonlyMap<string, number>) =>
  `services: ${JSON.stringify(Object.fromEntries([...ports].map(([name, http]) => [name, { 'x-mote': { http } }])))}\n`

function inMemory(texts: ReadonlyMap<string, string>): Files {
  const bytes = (path: string) => {
    const text = texts.get(path)
    return text === undefined ? undefined : new TextEncoder().encode(text)
  }
  return {
    read: async path => texts.get(path),
    bytes: async path => bytes(path),
    list: async path => {
      if (texts.has(path)) return { isFolder: false, entries: [{ path: '', isExecutable: false }] }
      const below = [...texts.keys()].filter(one => one.startsWith(`${path.replace(/\/$/, '')}/`))
      const entries = below.map(one => ({ path: relative(path, one), isExecutable: false }))
      return entries.length === 0 ? undefined : { isFolder: true, entries }
    },
  }
}

/**
 * Parses a template.toml; returns an empty object if it is invalid. Corrects two errors that a strict parser refuses:
 * an empty list followed by tables of the same name, and backslashes before characters that TOML does not escape.
 */
function tomlOr(path: string): Record<string, unknown> {
  try {
    const text = readFileSync(path, 'utf8')
    const repeated = [...text.matchAll(/^\[\[config\.(\w+)\]\]/gm)].map(([, name]) => name)
    const lines = text.split('\n').filter(line => !repeated.some(name => line.trim() === `${name} = []`))
    return objectOr(parse(lines.join('\n').replaceAll(/(?<!\\)\\(?=[^btnfruU"\\\s])/g, '')))
  } catch {
    return {}
  }
}

const listOr = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/**
 * A stack from a Dokploy template, whose template.toml has its ports, variables and files. Dokploy writes the files
 * into a sibling of the compose file's folder.
 */
function ofDokploy(name: string, path: string, template: string): CatalogStack {
  const parsed = tomlOr(template)
  const config = objectOr(parsed['config'])
  const texts = new Map([['compose.yml', readFileSync(path, 'utf8').replaceAll('../files/', './files/')]])
  for (const mount of [...listOr(config['mounts']), ...listOr(parsed['mounts'])].map(objectOr)) {
    const file = join('files', stringOr(mount['filePath']) ?? '')
    texts.set(file, typeof mount['content'] === 'string' ? mount['content'] : '')
  }
  const answers = new Map(variablesOf(parsed['variables']))
  const domains = [...listOr(config['domains']), ...listOr(parsed['domains'])].map(objectOr)
  const ports = domains.flatMap(({ serviceName, port }) =>
    typeof serviceName === 'string' && Number(portOf(port, answers)) > 0
      ? [[serviceName, Number(portOf(port, answers))] as const]
      : [],
  )
  texts.set('ports.yml', portsFile(new Map(ports.toReversed())))
  const env = new Map(
    [config['env'], parsed['env']].flatMap(variablesOf).map(([key, value]) => [key, answered(value, answers)]),
  )
  // Dokploy writes the template's variables into `.env`.
  texts.set('.env', [...env].map(([key, value]) => `${key}=${JSON.stringify(value).replaceAll('$', '\\$')}\n`).join(''))
  const asked = required(texts.get('compose.yml') ?? '')
  const paths = ports.length > 0 ? ['compose.yml', 'ports.yml'] : ['compose.yml']
  return {
    name: dirname(name),
    paths,
    files: inMemory(texts),
    environment: variable => {
      const value = env.get(variable)
      // Dokploy asks the user for required variables that the template leaves empty.
      return asked.has(variable) ? value || 'given' : (value ?? homeOnly(variable))
    },
  }
}

const portOf = (port: unknown, answers: ReadonlyMap<string, string>) => answered(String(port), answers)

/**
 * Replaces `${...}` with the values of the template's variables. Values that Dokploy would generate, such as passwords
 * and ports, are replaced with fixed ones.
 */
const answered = (value: string, answers: ReadonlyMap<string, string>, depth = 5): string =>
  value.replaceAll(/\$\{(\w+)[^}]*\}/g, (_, name: string) => {
    const answer = answers.get(name)
    if (answer !== undefined && depth > 0) return answered(answer, answers, depth - 1)
    return name === 'randomPort' ? '20000' : 'generated'
  })

/** Reads variables from a map, a list of maps, or a list of NAME=value. */
function variablesOf(env: unknown): (readonly [string, string])[] {
  if (!Array.isArray(env)) return Object.entries(objectOr(env)).map(([name, value]) => [name, String(value)])
  return listOr(env).flatMap(line => {
    if (typeof line !== 'string') return variablesOf(objectOr(line))
    const [, name, value = ''] = /^(\w+)=(.*)$/s.exec(line) ?? []
    return name === undefined ? [] : [[name, value] as const]
  })
}

const volumeName = /^([A-Za-z0-9][\w.-]*)(?=:|$)/
/**
 * Matches volume sources that are relative paths with slashes. Coolify makes a volume of each, with dashes instead of
 * slashes in its name.
 */
const volumePath = /(?<=^\s+- ['"]?)[A-Za-z0-9][\w.-]*\/[\w./-]*(?=:\/)/gm

/** Escapes dollar signs in `content` keys: Coolify writes these contents into files without substitution. */
function withLiteralContents(text: string): string {
  const ranges: (readonly [number, number])[] = []
  visit(parseDocument(text, { merge: true }), {
    Pair(_, { key, value }) {
      if (isScalar(key) && key.value === 'content' && isScalar(value) && value.range)
        ranges.push([value.range[0], value.range[1]])
    },
  })
  return ranges.reduceRight(
    (all, [from, to]) => all.slice(0, from) + all.slice(from, to).replaceAll('$', '$$$$') + all.slice(to),
    text,
  )
}

/**
 * Variables that a compose file requires (`${NAME:?}`); the platform of the template asks the user for their values.
 */
const required = (text: string): ReadonlySet<string> =>
  new Set([...text.matchAll(/\$\{(\w+):?\?/g)].map(([, name]) => name ?? ''))

/**
 * A stack from a Coolify template, in which names of variables and a comment contain the ports. Coolify generates the
 * variables `SERVICE_*` and all volumes.
 */
function ofCoolify(name: string, path: string): CatalogStack {
  const text = withLiteralContents(readFileSync(path, 'utf8')).replaceAll(volumePath, source =>
    source.replace(/\/$/, '').replaceAll('/', '-'),
  )
  const main = Number(/^# port: (\d+)/m.exec(text)?.[1] ?? 80)
  const services = Object.entries(objectOr(objectOr(parseYaml(text))['services']))
  // A public address belongs to the first service that mentions its variable; the other services only use the value.
  const addressed = new Set<string>()
  const ports = services.flatMap(([service, value]) => {
    const environment = objectOr(value)['environment']
    const names = Array.isArray(environment) ? environment.map(String) : Object.keys(objectOr(environment))
    const own = names.flatMap(one => {
      const [, address, port] = /^SERVICE_(?:URL|FQDN)_([A-Z0-9_]*?)(?:_(\d+))?(?:=|$)/.exec(one) ?? []
      return address === undefined ? [] : [{ address, port }]
    })
    const found = own.find(({ address }) => !addressed.has(address))
    for (const { address } of own) addressed.add(address)
    return found === undefined ? [] : [[service, Number(found.port ?? main)] as const]
  })
  const mounts = services.flatMap(([, value]) => listOr(objectOr(value)['volumes']))
  const volumes = mounts.flatMap(one => volumeName.exec(String(objectOr(one)['source'] ?? one))?.[1] ?? [])
  const added = JSON.stringify(Object.fromEntries(volumes.map(volume => [volume, {}])))
  const texts = new Map([
    // Escape other dollar signs: Coolify substitutes only those before a name.
    ['compose.yml', text.replaceAll(/(?<!\$)\$(?![A-Za-z_{$])/g, '$$$$')],
    ['more.yml', `${portsFile(new Map(ports))}volumes: ${added}\n`],
  ])
  const asked = required(text)
  return {
    name,
    paths: ['compose.yml', 'more.yml'],
    files: inMemory(texts),
    environment: variable =>
      variable.startsWith('SERVICE_') || asked.has(variable) ? 'generated' : homeOnly(variable),
  }
}
