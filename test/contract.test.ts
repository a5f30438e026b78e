/** Compares the served OpenAPI document with the specification, in both directions. */
import { afterAll, describe, expect, it } from 'vitest'
import { createFixture, neverCalled } from './support/api-fixture.ts'
import { allOperations } from '../src/control/operations.ts'
import {
  appScaleStates,
  bodyAdditions,
  fieldAdditions,
  type Fields,
  operationAdditions,
  operations as specified,
  queryAdditions,
  resources,
  type Row,
} from './contract-table.ts'

/** The parts of an OpenAPI document that this test reads. */
interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly default?: unknown
  readonly maximum?: number
}
type Content = Readonly<Record<string, { readonly schema?: Schema }>>
interface Operation {
  readonly security: unknown
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required: boolean
    readonly schema: Schema
  }[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
  readonly 'x-mote-addition'?: true
}
interface Document {
  readonly openapi: string
  readonly info: { readonly version: string }
  readonly servers: readonly { readonly url: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

const { app } = createFixture({ operations: allOperations, features: [neverCalled(allOperations)] })
const answer = await app.inject({ url: '/v1/api-docs/openapi.json' })
const document = answer.json<Document>()
const served: ReadonlyMap<string, Operation> = new Map(
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item)
      .filter(([method]) => method !== 'servers')
      .map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const),
  ),
)
afterAll(() => app.close())

describe('the OpenAPI document', () => {
  it('has the version number of the API specification, which has 106 operations', () => {
    expect(Object.keys(specified)).toHaveLength(106)
    expect(Object.values(specified).filter(row => row.auth !== 'none')).toHaveLength(88)
    expect(document.openapi).toBe('3.1.0')
    expect(document.info.version).toBe('0.5.4')
    expect(document.servers[0]?.url).toBe('/v1')
  })

  it('has exactly the specified operations, and marks additions', () => {
    const ours = [...served].filter(([, operation]) => !operation['x-mote-addition']).map(([key]) => key)
    expect(ours.toSorted()).toEqual(Object.keys(specified).toSorted())
    expect([...served.keys()].filter(key => !(key in specified)).toSorted()).toEqual(operationAdditions.toSorted())
  })

  it.each(Object.entries(specified))('%s is declared as specified', (key, row) => {
    const operation = served.get(key)
    expect(operation, 'is served').toBeDefined()
    if (!operation) return
    expect(operation.security).toEqual(row.auth === 'none' ? [] : [{ bearer: [] }])
    checkParameters(key, operation, row)
    checkBody(key, operation, row)
    checkAnswer(key, operation, row)
  })

  it.each(Object.entries(resources))('resource %s has the specified fields', (name, fields) => {
    checkFields(name, fields, component(name))
  })

  it('has exactly the specified scale states of an app', () => {
    expect(component('AppScaleState').enum?.toSorted()).toEqual(appScaleStates.toSorted())
  })

  it('has the specified memory, vCPU and hypervisor values of a manual deploy', () => {
    for (const name of ['DeployRequest', 'DeployAppRequest']) {
      const { memory_mib, vcpus, hypervisor } = component(name).properties ?? {}
      expect(memory_mib?.anyOf?.[0]?.enum).toEqual([512, 1024, 2048, 4096])
      expect(vcpus?.anyOf?.[0]?.enum).toEqual([1, 2, 3, 4])
      expect(hypervisor?.enum).toEqual(expect.arrayContaining(['firecracker', 'cloud-hypervisor']))
    }
  })

  it('documents the statuses 400, 500 and 503 of every operation', () => {
    for (const [key, { responses }] of served)
      for (const status of ['400', '500', '503']) expect(responses[status], `${key} ${status}`).toBeDefined()
  })

  it('documents 429 for every operation except health probes and API documents', () => {
    const unlimited = [...served].filter(([, { responses }]) => !responses['429']).map(([key]) => key)
    expect(unlimited).toEqual([
      'GET /v1/health',
      'GET /v1/health/live',
      'GET /v1/health/ready',
      'GET /v1/api-docs/openapi.json',
      'GET /v1/api-docs/mote.schema.json',
      'GET /v1/docs',
    ])
  })
})

function component(name: string): Schema {
  const schema = document.components.schemas[name]
  if (!schema) throw new Error(`there is no component ${name}`)
  return schema
}

function resolve(schema: Schema = {}): Schema {
  return schema.$ref !== undefined ? component(schema.$ref.split('/').at(-1) ?? '') : schema
}

function checkParameters(key: string, operation: Operation, row: Row): void {
  for (const place of ['path', 'query'] as const) {
    const declared = (operation.parameters ?? []).filter(parameter => parameter.in === place)
    const wanted: Fields = (place === 'path' ? row.params : row.query) ?? {}
    const ofStream = row.answer === 'sse' ? ['last_event_id'] : []
    const extra = place === 'path' ? [] : ['project', ...ofStream, ...(queryAdditions[key] ?? [])]
    const names = declared.map(parameter => parameter.name)
    expect(names.filter(name => !extra.includes(name)).toSorted(), `${place} parameters`).toEqual(
      Object.keys(wanted).toSorted(),
    )
    for (const parameter of declared) {
      const type = wanted[parameter.name]
      expect(parameter.required, parameter.name).toBe(type !== undefined && !type.startsWith('~'))
      if (type !== undefined) checkType(parameter.name, type, parameter.schema)
    }
  }
}

function checkBody(key: string, operation: Operation, row: Row): void {
  const { requestBody } = operation
  if (row.body === undefined) {
    if (!bodyAdditions.includes(key)) return expect(requestBody).toBeUndefined()
    expect(requestBody?.required).toBe(false)
    return checkFields(key, {}, resolve(requestBody?.content['application/json']?.schema))
  }
  expect(requestBody?.required).toBe(true)
  if (row.body === 'raw')
    return expect(requestBody?.content).toEqual({
      'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
    })
  const schema = resolve(requestBody?.content['application/json']?.schema)
  // The specification leaves this shape open, so any object conforms.
  if (row.body === 'free') return expect(schema.type).toBe('object')
  // The specification does not show this shape, so any object conforms.
  if (Object.keys(row.body).length > 0) checkFields(key, row.body, schema)
}

function checkAnswer(key: string, operation: Operation, { answer }: Row): void {
  const content = operation.responses['200']?.content ?? {}
  const [type] = Object.keys(content)
  if (answer === 'sse') return expect(type).toBe('text/event-stream')
  if (answer === 'text') return expect(type).toBe('text/plain; charset=utf-8')
  if (answer === 'html') return expect(type).toBe('text/html; charset=utf-8')
  expect(type).toBe('application/json')
  const schema = content['application/json']?.schema
  if (answer === undefined) return
  if (answer === 'free') return expect(schema?.$ref ?? schema?.items?.$ref).toBeDefined()
  if (answer === '[]') return expect(schema?.type).toBe('array')
  checkType(key, answer, schema)
}

/** Checks every field with its type; a field must be specified or listed as an addition. */
function checkFields(owner: string, fields: Fields, schema: Schema): void {
  expect(schema.type, owner).toBe('object')
  const additions = fieldAdditions[owner] ?? []
  expect(Object.keys(schema.properties ?? {}).toSorted(), `fields of ${owner}`).toEqual(
    [...Object.keys(fields), ...additions].toSorted(),
  )
  const required = Object.entries(fields)
    .filter(([, type]) => !type.startsWith('~'))
    .map(([name]) => name)
  // A request body may require at most the specified fields; a response may also guarantee our additions.
  const isBody = owner.includes(' ')
  const declared = (schema.required ?? []).filter(name => isBody || !additions.includes(name))
  expect(declared.toSorted(), `required fields of ${owner}`).toEqual(required.toSorted())
  for (const [name, type] of Object.entries(fields)) checkType(`${owner}.${name}`, type, schema.properties?.[name])
}

const scalars: Readonly<Record<string, object>> = {
  string: { type: 'string' },
  uuid: { type: 'string', format: 'uuid' },
  'date-time': { type: 'string', format: 'date-time' },
  boolean: { type: 'boolean' },
  integer: { type: 'integer' },
  number: { type: 'number' },
  double: { type: 'number', format: 'double' },
  int32: { type: 'integer', format: 'int32' },
  int64: { type: 'integer', format: 'int64' },
  uint16: { type: 'integer', format: 'uint16', minimum: 0, maximum: 65_535 },
  uint32: { type: 'integer', format: 'uint32', minimum: 0 },
  null: { type: 'null' },
}

function checkType(where: string, text: string, schema: Schema = {}): void {
  const [, type = '', isNullable, fallback] = /^~?([^?=]+?)(\?)?(?: = (.+))?$/.exec(text) ?? []
  if (fallback !== undefined) expect(schema.default, where).toEqual(JSON.parse(fallback))
  if (isNullable) return checkNullable(where, type, schema)
  if (type === 'free') return expect(schema.type, where).toBeUndefined()
  if (type === 'map')
    return expect(schema, where).toMatchObject({ type: 'object', additionalProperties: { type: 'string' } })
  if (type.endsWith('[]')) {
    expect(schema.type, where).toBe('array')
    return checkType(where, type.slice(0, -2), schema.items)
  }
  const scalar = scalars[type]
  if (!scalar) return expect(schema.$ref, where).toBe(`#/components/schemas/${type}`)
  expect(schema, where).toMatchObject(scalar)
  if (type === 'uint32') expect(schema.maximum, where).toBeLessThanOrEqual(4_294_967_295)
}

/** Checks a type that may be null, which is expressed by an additional `type` or an additional `anyOf` branch. */
function checkNullable(where: string, type: string, schema: Schema): void {
  if (schema.anyOf) {
    expect(schema.anyOf[1], where).toEqual({ type: 'null' })
    return checkType(where, type, schema.anyOf[0])
  }
  const [first = '', ...rest] = schema.type ?? []
  expect(rest, where).toEqual(['null'])
  checkType(where, type, { ...schema, type: first })
}
