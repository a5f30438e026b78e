/** Chooses the port of an app that gets the HTTP requests. */
import { otherProtocols } from './keys.ts'
import { differs, faultOf, type Field, items, member, number, text } from './reader.ts'

export type PortChoice = { readonly kind: 'web'; readonly port: number } | { readonly kind: 'worker' }

interface Published {
  readonly field: Field
  /** Port on which the program in the container listens. */
  readonly target: number
  readonly protocol: string
}

/**
 * Returns the HTTP port of a service. A service is a web app if it publishes a port that may speak HTTP, otherwise a
 * worker.
 */
export function portOf(field: Field, environment: ReadonlyMap<string, string>): PortChoice {
  const own = member(member(field, 'x-mote'), 'http')
  const published = items(member(field, 'ports')).flatMap(one => publishedPort(one) ?? [])
  const choice = chosen(own, published)
  for (const one of published) {
    if (choice.kind === 'web' && one.target === choice.port && one.protocol === 'tcp') continue
    const reached = `other services reach it as ${field.path.replace('services.', '')}:${one.target}`
    differs(one.field, `is not published: an app has one HTTP port; ${reached}`)
  }
  const variable = environment.get('PORT')
  if (variable !== undefined && choice.kind === 'web' && variable !== String(choice.port)) {
    const at = member(member(field, 'environment'), 'PORT') ?? field
    differs(at, `is ${choice.port} in the VM: PORT is always the port of the app`)
  }
  return choice
}

function chosen(own: Field | undefined, published: readonly Published[]): PortChoice {
  if (own) {
    if (text(own) === 'false') return { kind: 'worker' }
    const port = number(own, 1)
    if (port !== undefined && port <= 65_535) return { kind: 'web', port }
    if (port !== undefined) faultOf(own, 'must be a port, or false for none')
  }
  const http = published.find(({ target, protocol }) => protocol === 'tcp' && !otherProtocols.has(target))
  return http ? { kind: 'web', port: http.target } : { kind: 'worker' }
}

/** Parses `[address:][published:]target[/protocol]`, or a map. If `target` is a range, returns its first port. */
function publishedPort(field: Field): Published | undefined {
  if (field.tree.kind === 'map') {
    const target = number(member(field, 'target'), 1)
    if (target === undefined || target > 65_535) {
      faultOf(field, 'needs a target port')
      return undefined
    }
    return { field, target, protocol: text(member(field, 'protocol')) ?? 'tcp' }
  }
  const given = text(field) ?? ''
  const [, target, protocol = 'tcp'] =
    /^(?:.*:)?(\d{1,5})(?:-\d{1,5})?(?:\/(tcp|udp|sctp))?$/.exec(given.slice(0, 200)) ?? []
  if (target === undefined || Number(target) < 1 || Number(target) > 65_535) {
    faultOf(field, 'must be a port such as "8080:80"')
    return undefined
  }
  return { field, target: Number(target), protocol }
}
