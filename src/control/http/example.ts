/** Examples of whole request and response bodies, composed from the examples of their members. */
import { exampleMark } from './types.ts'

type Json = Readonly<Record<string | symbol, unknown>>

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the first example of a schema, or one composed from its members; undefined if there is none. */
export function exampleOf(schema: unknown): unknown {
  if (!isJson(schema)) return undefined
  if (exampleMark in schema) return schema[exampleMark]
  const { anyOf, default: fallback, enum: values, examples, properties, required, type } = schema
  if (Array.isArray(examples)) return examples[0]
  if ('const' in schema) return schema['const']
  if (fallback !== undefined) return fallback
  if (Array.isArray(values)) return values[0]
  if (Array.isArray(anyOf)) return anyOf.map(exampleOf).find(example => example !== undefined)
  if (isJson(properties)) return exampleOfMembers(properties, Array.isArray(required) ? required : [])
  if (type === 'array') return exampleOfItems(schema['items'])
  return type === 'null' ? null : undefined
}

/**
 * Composes an example object. Undefined if a required member has no example; the test of the OpenAPI document names
 * that member.
 */
function exampleOfMembers(properties: Json, required: readonly unknown[]): Json | undefined {
  const members = Object.entries(properties).map(([name, schema]) => [name, exampleOf(schema)] as const)
  if (members.some(([name, example]) => example === undefined && required.includes(name))) return undefined
  return Object.fromEntries(members.filter(([, example]) => example !== undefined))
}

function exampleOfItems(items: unknown): unknown {
  const item = exampleOf(items)
  return item === undefined ? undefined : [item]
}
