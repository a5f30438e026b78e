/** Moves named schemas to the components of the OpenAPI document, and references them where they are used. */
export type Json = Record<string, unknown>
export type Components = Map<string, unknown>

export const reference = (title: string) => ({ $ref: `#/components/schemas/${title}` })

/**
 * JSON Schema keywords whose content is a value and not a schema. A property `title` in such a value is not the name of
 * a schema.
 */
const values: ReadonlySet<string> = new Set(['examples', 'default', 'enum', 'const'])

/** Returns the schema with each titled schema in it moved to `components` and replaced with a reference. */
export function hoist(schema: unknown, components: Components): unknown {
  if (Array.isArray(schema)) return schema.map(item => hoist(item, components))
  if (typeof schema !== 'object' || schema === null) return schema
  const copy: Json = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, hoistIn(key, value, components)]),
  )
  const { title } = copy
  if (isNullableNumber(copy)) return asBranches(copy)
  if (typeof title !== 'string') return copy
  const known = components.get(title)
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(copy))
    throw new Error(`BUG: two different schemas are called ${title}`)
  components.set(title, copy)
  return reference(title)
}

function hoistIn(key: string, value: unknown, components: Components): unknown {
  if (values.has(key)) return value
  if (key !== 'properties' || typeof value !== 'object' || value === null) return hoist(value, components)
  // Property names are not keywords: a property may be called "title" or "default".
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, hoist(member, components)]))
}

/** Returns whether the schema allows null and a fixed set of numbers. */
const isNullableNumber = ({ enum: members, type }: Json) =>
  Array.isArray(type) && type.includes('null') && Array.isArray(members) && members.some(one => typeof one === 'number')

/**
 * Turns a nullable enum of numbers into an `anyOf` of the numbers and null, with the same meaning, because oapi-codegen
 * fails on null in an enum of numbers.
 */
function asBranches({ description, enum: members, examples, type, ...limits }: Json): Json {
  const types = Array.isArray(type) ? type.filter(one => one !== 'null') : []
  const numbers = Array.isArray(members) ? members.filter(one => one !== null) : []
  return {
    anyOf: [{ ...limits, type: types[0], enum: numbers }, { type: 'null' }],
    description,
    examples,
  }
}
