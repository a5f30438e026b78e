/**
 * Converts JSON Schema to TypeScript types, as far as the OpenAPI document uses it
 * (docs/decisions/0030-openapi-document-and-client.md). Throws for any other construct of JSON Schema, so that the
 * generation of the client fails instead of producing a wrong type.
 */
export type Json = Readonly<Record<string, unknown>>

export const isJson = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns a value that must be a JSON object. @throws Error with the location if it is another value */
export function object(value: unknown, where: string): Json {
  if (!isJson(value)) throw new Error(`${where}: expected an object, found ${JSON.stringify(value)}`)
  return value
}

export const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
export const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

const primitives: Readonly<Record<string, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
}

/** Returns the TypeScript type of a schema. @param where location of the schema, for error messages */
export function typeOf(schema: unknown, where: string): string {
  const json = object(schema, where)
  const reference = text(json.$ref)
  if (reference !== undefined) return reference.replace('#/components/schemas/', '')
  if (Array.isArray(json.enum)) return json.enum.map(value => JSON.stringify(value).replaceAll('"', "'")).join(' | ')
  if (Array.isArray(json.anyOf))
    return json.anyOf.map((branch, index) => typeOf(branch, `${where}/anyOf/${index}`)).join(' | ')
  if (Array.isArray(json.type)) return json.type.map(type => typeOf({ ...json, type }, where)).join(' | ')
  const type = text(json.type)
  // A schema without a type allows any JSON value. scripts/client/source.ts defines JsonValue.
  if (type === undefined) return 'JsonValue'
  if (type === 'array') return `readonly ${wrap(typeOf(json.items ?? {}, `${where}/items`))}[]`
  if (type === 'object') return objectType(json, where)
  const primitive = primitives[type]
  if (primitive === undefined) throw new Error(`${where}: no TypeScript type for ${JSON.stringify(schema)}`)
  return primitive
}

const wrap = (type: string) => (/[ |]/.test(type) ? `(${type})` : type)

function objectType(json: Json, where: string): string {
  if (isJson(json.additionalProperties))
    return `Readonly<Record<string, ${typeOf(json.additionalProperties, `${where}/additionalProperties`)}>>`
  return json.properties === undefined ? 'Readonly<Record<string, JsonValue>>' : `{\n${members(json, where)}}`
}

/** Returns the members of an object schema as TypeScript, one per line, with their descriptions as comments. */
export function members(json: Json, where: string): string {
  const required = new Set(list(json.required))
  return Object.entries(object(json.properties ?? {}, where))
    .map(([name, property]) => {
      const description = isJson(property) ? text(property.description) : undefined
      const comment = description === undefined ? '' : `  /** ${description.replaceAll('*/', '*\\/')} */\n`
      const type = typeOf(property, `${where}/${name}`)
      return `${comment}  readonly ${name}${required.has(name) ? `: ${type}` : `?: ${type} | undefined`}\n`
    })
    .join('')
}

/** Returns every named schema of the document as an exported TypeScript type. */
export function interfaces(schemas: Json): string {
  return Object.entries(schemas)
    .map(([name, schema]) => {
      const json = object(schema, name)
      const comment = text(json.description)
      const head = comment === undefined ? '' : `/** ${comment} */\n`
      return json.type === 'object' && json.properties !== undefined
        ? `${head}export interface ${name} {\n${members(json, name)}}\n`
        : `${head}export type ${name} = ${typeOf(json, name)}\n`
    })
    .join('\n')
}
