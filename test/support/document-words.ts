/** Finds operations, parameters and object members that the OpenAPI document does not explain. */
type Json = Readonly<Record<string, unknown>>

const json = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {})

/**
 * Returns each part of the document that lacks a description, an example, a schema or a name, with what it lacks, such
 * as `App.memory_mib: example`.
 */
export function missingWords(document: unknown): string[] {
  const { components, paths } = json(document)
  const schemas = json(json(components)['schemas'])
  return [
    ...Object.entries(json(paths)).flatMap(([path, item]) => ofPath(path, json(item))),
    ...Object.entries(schemas).flatMap(([name, schema]) => [
      // Objects need no description of their own, because their members have descriptions.
      ...(hasMembers(schema) ? [] : ofDescription(name, json(schema))),
      ...ofMembers(name, json(schema)),
    ]),
  ]
}

function ofPath(path: string, item: Json): string[] {
  const operations = Object.entries(item).filter(([method]) => method !== 'servers')
  return operations.flatMap(([method, operation]) => ofOperation(`${method.toUpperCase()} ${path}`, json(operation)))
}

function ofOperation(name: string, operation: Json): string[] {
  const parameters = Array.isArray(operation['parameters']) ? operation['parameters'].map(json) : []
  const bodies = Object.entries(json(operation['responses'])).map(
    ([status, response]) => [status, json(response)] as const,
  )
  return [
    ...ofDescription(name, operation),
    ...parameters.flatMap(parameter => {
      const place = `${name} ${parameter['name']}`
      return [...ofDescription(place, parameter), ...('example' in parameter ? [] : [`${place}: example`])]
    }),
    ...ofContent(`${name} body`, json(operation['requestBody'])),
    ...bodies.flatMap(([status, response]) => ofContent(`${name} ${status}`, response)),
  ]
}

function ofContent(name: string, holder: Json): string[] {
  return Object.values(json(holder['content'])).flatMap(media => {
    const { example, schema } = json(media)
    const { oneOf = [] } = json(json(schema)['contentSchema'])
    const events = Array.isArray(oneOf) ? oneOf.map(branch => json(json(branch)['properties'])) : []
    const isBinary = json(schema)['format'] === 'binary'
    return [
      ...(example === undefined && !isBinary ? [`${name}: example`] : []),
      ...(Object.keys(json(schema)).length === 0 ? [`${name}: schema`] : []),
      ...ofMembers(name, json(schema)),
      ...events.flatMap(({ data, event }) => (isNamed(data) ? [] : [`${name} ${json(event)['const']}: name`])),
    ]
  })
}

const ofDescription = (name: string, { description }: Json) =>
  typeof description === 'string' && description !== '' ? [] : [`${name}: description`]

/** Checks the members of an object schema, the items of an array schema, and each alternative of a union. */
function ofMembers(name: string, schema: Json): string[] {
  const { anyOf, items, properties } = schema
  return [
    ...Object.entries(json(properties)).flatMap(([member, property]) => ofMember(`${name}.${member}`, json(property))),
    ...(items === undefined ? [] : ofMembers(`${name}[]`, json(items))),
    ...(Array.isArray(anyOf) ? anyOf.flatMap(branch => ofMembers(name, json(branch))) : []),
  ]
}

function ofMember(name: string, schema: Json): string[] {
  const { description, examples } = schema
  // A named schema is checked once, at its definition.
  if (isNamed(schema)) return []
  const isComposed = schema['properties'] !== undefined || isNamed(schema['items']) || hasMembers(schema['items'])
  return [
    ...(typeof description === 'string' && description !== '' ? [] : [`${name}: description`]),
    ...(isComposed || Array.isArray(examples) || hasExampleIn(schema) ? [] : [`${name}: example`]),
    ...ofMembers(name, schema),
  ]
}

/** Returns whether the schema is a reference, or has an alternative that is one. */
const isNamed = (schema: unknown): boolean => {
  const { anyOf } = json(schema)
  return '$ref' in json(schema) || (Array.isArray(anyOf) && anyOf.some(isNamed))
}

const hasMembers = (schema: unknown) => json(schema)['properties'] !== undefined

/** Returns whether the items of an array, or one of the alternatives, have examples. */
const hasExampleIn = ({ anyOf, items }: Json): boolean =>
  [items, ...(Array.isArray(anyOf) ? anyOf : [])].some(
    part =>
      Array.isArray(json(part)['examples']) || hasMembers(part) || (part !== undefined && hasExampleIn(json(part))),
  )
