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
 * Yields an error for each unknown key, with the key that was probably meant. The field of an error is a path with
 * slashes, such as `processes/web/port`. It is a generator, because comparing one name with all known keys takes 25 µs,
 * a file may have thousands of keys, and only the first errors are reported.
 */
export function* unknownKeys(schema: object, value: unknown, path = ''): Generator<FieldFault, void> {
  const shape: Shape = schema
  const below = (name: string | number) => (path === '' ? `${name}` : `${path}/${name}`)
  if (Array.isArray(value)) {
    if (shape.items) for (const [at, one] of value.entries()) yield* unknownKeys(shape.items, one, below(at))
    return
  }
  if (typeof value !== 'object' || value === null) return
  const patterns = Object.keys(shape.patternProperties ?? {})
  const known = Object.keys(shape.properties ?? {})
  for (const [name, one] of Object.entries(value)) {
    const inner = shape.properties && Object.hasOwn(shape.properties, name) ? shape.properties[name] : undefined
    const pattern = inner ? undefined : patterns.find(each => new RegExp(each).test(name))
    const matched = inner ?? (pattern === undefined ? undefined : shape.patternProperties?.[pattern])
    if (matched) yield* unknownKeys(matched, one, below(name))
    else if (patterns.length > 0)
      yield { field: below(name), message: `is not a valid name: use ${shape['x-mote-names']}` }
    else if (shape.properties) yield { field: below(name), message: unknown(name, known, path) }
  }
}

function unknown(name: string, known: readonly string[], path: string): string {
  const meant = closestTo(name, known)
  if (meant !== undefined) return `is unknown. Did you mean "${meant}"?`
  const place = path === '' ? 'The file' : path.replaceAll('/', '.')
  return `is unknown. ${place} may have: ${known.join(', ')}`
}
