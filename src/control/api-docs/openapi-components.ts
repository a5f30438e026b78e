/** Named schemas of the document: each becomes a component and is referenced where it is used. */
export type Json = Record<string, unknown>
export type Components = Map<string, unknown>

export const reference = (title: string) => ({ $ref: `#/components/schemas/${title}` })

/** Keywords with values instead of schemas: a `title` in them is not a schema name. */
const values: ReadonlySet<string> = new Set(['examples', 'default', 'enum', 'const'])

/** Replaces every titled schema by a reference to its component. */
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
  // Member names are not keywords: a member may be called "title" or "default".
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, hoist(member, components)]))
}

/** Whether the schema is a number of a closed set, or null. */
const isNullableNumber = ({ enum: members, type }: Json) =>
  Array.isArray(type) && type.includes('null') && Array.isArray(members) && members.some(one => typeof one === 'number')

/** Moves null to its own branch, with the same meaning, because oapi-codegen fails on null among numbers. */
function asBranches({ description, enum: members, examples, type, ...limits }: Json): Json {
  const types = Array.isArray(type) ? type.filter(one => one !== 'null') : []
  const numbers = Array.isArray(members) ? members.filter(one => one !== null) : []
  return {
    anyOf: [{ ...limits, type: types[0], enum: numbers }, { type: 'null' }],
    description,
    examples,
  }
}
