/** Named schemas of the document: each becomes a component, and a reference to it where it is used. */
export type Json = Record<string, unknown>
export type Components = Map<string, unknown>

export const reference = (title: string) => ({ $ref: `#/components/schemas/${title}` })

/** Values, not schemas: a `title` in them is no name. */
const values: ReadonlySet<string> = new Set(['examples', 'default', 'enum', 'const'])

/** Replaces every schema that has a title by a reference to the component of that name. */
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
  // The names of members are no keywords: one may be called "title" or "default".
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, hoist(member, components)]))
}

/** A number of a closed set, or null. */
const isNullableNumber = ({ enum: members, type }: Json) =>
  Array.isArray(type) && type.includes('null') && Array.isArray(members) && members.some(one => typeof one === 'number')

/** Null among numbers stops oapi-codegen; with a branch of its own it means the same. */
function asBranches({ description, enum: members, examples, type, ...limits }: Json): Json {
  const types = Array.isArray(type) ? type.filter(one => one !== 'null') : []
  const numbers = Array.isArray(members) ? members.filter(one => one !== null) : []
  return {
    anyOf: [{ ...limits, type: types[0], enum: numbers }, { type: 'null' }],
    description,
    examples,
  }
}
