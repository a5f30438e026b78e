/**
 * Compiles the schemas of an operation into functions that return the validated value or throw a 400 with an
 * explanation.
 */
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import { lazily } from '../../lib/once.ts'
import { ApiError, type ErrorDetail, invalidField } from './errors.ts'
import { describeFaults } from '../../lib/faults.ts'
import { hasControls } from '../../lib/printable.ts'
import { isStorable } from './json-body.ts'
import { rawTextMark } from './types.ts'

type Properties = Readonly<Record<string, PropertySchema>>
interface PropertySchema {
  readonly type?: string | readonly string[]
  readonly default?: unknown
}

/**
 * Validates a JSON body, fills in defaults, and keeps only the members that the schema names, so that an invented
 * member (`role`, `tenant_id`) cannot reach a database row through a spread of the body.
 */
export function bodyValidator(schema: TSchema): (value: unknown) => unknown {
  const validator = lazily(() => Compile(schema))
  const properties = Object.entries(propertiesOf(schema))
  return value => {
    if (!validator().Check(value)) throw refused(schema, validator().Errors(value)[1])
    refuseControls(schema, value, '')
    if (properties.length === 0 || !isRecord(value)) return value
    const kept: Record<string, unknown> = {}
    for (const [name, property] of properties) {
      const member = value[name] === undefined ? property.default : value[name]
      if (member !== undefined) kept[name] = member
    }
    return kept
  }
}

/**
 * Validates path and query parameters. Numbers and booleans are parsed if the schema declares them; a repeated
 * parameter is refused unless it is a list, since two readers could pick different values.
 */
export function stringsValidator(schema: TSchema): (values: Readonly<Record<string, unknown>>) => unknown {
  const validator = lazily(() => Compile(schema))
  const properties = Object.entries(propertiesOf(schema))
  return values => {
    const read: Record<string, unknown> = {}
    for (const [name, property] of properties) {
      const given = values[name]
      const value = property.type === 'array' && typeof given === 'string' ? [given] : given
      if (value === undefined) {
        if (property.default !== undefined) read[name] = property.default
      } else if (property.type === 'array' && Array.isArray(value)) {
        if (!value.every(isStorable)) throw invalidField(name, 'has a NUL character or an unpaired surrogate')
        read[name] = value
      } else if (typeof value !== 'string') throw invalidField(name, 'is given more than once')
      else if (!isStorable(value)) throw invalidField(name, 'has a NUL character or an unpaired surrogate')
      else read[name] = fromString(value, property)
    }
    if (!validator().Check(read)) throw refused(schema, validator().Errors(read)[1])
    refuseControls(schema, read, '')
    return read
  }
}

/** A value that cannot be parsed stays a string, so that the validator reports the expected type. */
function fromString(value: string, property: PropertySchema): unknown {
  switch (property.type) {
    case 'integer':
      return /^-?\d{1,16}$/.test(value) ? Number(value) : value
    case 'boolean':
      return value === 'true' ? true : value === 'false' ? false : value
    default:
      return value
  }
}

function refused(schema: TSchema, errors: Parameters<typeof describeFaults>[1]): ApiError {
  const details: readonly ErrorDetail[] = describeFaults(schema, errors)
  const [first] = details
  const more = details.length > 1 ? ` (and ${details.length - 1} more)` : ''
  const text = first ? `${first.field === '' ? 'The body' : first.field} ${first.message}` : 'The request is not valid'
  return new ApiError('invalid_request', `${text}${more}.`, { details })
}

/** Refuses control characters in text that does not allow them (types.ts, `rawText`). @throws ApiError 400 */
function refuseControls(schema: unknown, value: unknown, field: string): void {
  if (typeof value === 'string') {
    if (hasControls(value) && !isRaw(schema)) throw invalidField(field || 'body', 'must not have control characters')
  } else if (Array.isArray(value)) {
    const { items } = shapeOf(schema)
    for (const [at, one] of value.entries()) refuseControls(items, one, `${field}/${at}`)
  } else if (isRecord(value)) {
    const shape = shapeOf(schema)
    const { properties = {}, additionalProperties = isFree(shape) ? shape : undefined } = shape
    for (const [name, one] of Object.entries(value)) {
      const isNamed = Object.hasOwn(properties, name)
      const inner = isNamed ? properties[name] : additionalProperties
      // Members that the schema does not name are dropped.
      if (inner === undefined) continue
      if (!isNamed && hasControls(name))
        throw invalidField(field || 'body', 'must not have control characters in a name')
      refuseControls(inner, one, field === '' ? name : `${field}/${name}`)
    }
  }
}

interface Shape {
  readonly type?: unknown
  readonly items?: unknown
  readonly properties?: Readonly<Record<string, unknown>>
  readonly additionalProperties?: unknown
  readonly anyOf?: readonly unknown[]
}

/** Returns the non-null branch of a nullable object or list, else the schema itself. */
function shapeOf(schema: unknown): Shape {
  if (!isRecord(schema)) return {}
  const shape: Shape = schema
  const inner = shape.anyOf?.find(one => isRecord(one) && one['type'] !== 'null')
  return inner === undefined ? shape : shapeOf(inner)
}

/** Returns whether the schema accepts any JSON. */
const isFree = ({ type, anyOf }: Shape) => type === undefined && anyOf === undefined

const isRaw = (schema: unknown) => isRecord(schema) && schema[rawTextMark] === true

function propertiesOf(schema: TSchema): Properties {
  const { properties } = schema as { readonly properties?: Properties }
  return properties ?? {}
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
