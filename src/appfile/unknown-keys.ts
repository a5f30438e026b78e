/** Finds keys in `mote.toml` that its schema does not have. */
import type { FieldFault } from '../lib/faults.ts'
import { closestTo } from '../lib/closest.ts'

/** The part of JSON Schema that the schema of `mote.toml` uses. */
interface Shape {
  readonly properties?: Readonly<Record<string, object>>
  readonly patternProperties?: Readonly<Record<string, object>>
  readonly items?: object
  /** Explains the patterns of `patternProperties` in error messages. */
  readonly 'x-mote-names'?: string
}

/**
 * Returns an error for each unknown key, with the key that was probably meant. The field of an error is a path with
 * slashes, such as `processes/web/port`.
 */
export function unknownKeys(schema: object, value: unknown, path = ''): FieldFault[] {
  const shape: Shape = schema
  const below = (name: string | number) => (path === '' ? `${name}` : `${path}/${name}`)
  if (Array.isArray(value))
    return value.flatMap((one, at) => (shape.items ? unknownKeys(shape.items, one, below(at)) : []))
  if (typeof value !== 'object' || value === null) return []
  const patterns = Object.keys(shape.patternProperties ?? {})
  const known = Object.keys(shape.properties ?? {})
  return Object.entries(value).flatMap(([name, one]) => {
    const inner = shape.properties && Object.hasOwn(shape.properties, name) ? shape.properties[name] : undefined
    if (inner) return unknownKeys(inner, one, below(name))
    const pattern = patterns.find(one => new RegExp(one).test(name))
    const matched = pattern === undefined ? undefined : shape.patternProperties?.[pattern]
    if (matched) return unknownKeys(matched, one, below(name))
    if (patterns.length > 0)
      return [{ field: below(name), message: `is not a valid name: use ${shape['x-mote-names']}` }]
    return shape.properties ? [{ field: below(name), message: unknown(name, known, path) }] : []
  })
}

function unknown(name: string, known: readonly string[], path: string): string {
  const meant = closestTo(name, known)
  if (meant !== undefined) return `is unknown. Did you mean "${meant}"?`
  const place = path === '' ? 'The file' : path.replaceAll('/', '.')
  return `is unknown. ${place} may have: ${known.join(', ')}`
}
