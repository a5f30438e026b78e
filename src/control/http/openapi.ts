/**
 * The OpenAPI 3.1.0 document, built from the declarations alone. TypeBox schemas are JSON Schema 2020-12 already, so
 * they go in as they are; those with a title become named components.
 */
import type { TSchema } from 'typebox'
import type { Operation } from './operation.ts'
import { isChange, isTagged, resourceOf } from './precondition.ts'
import { rightOf } from './right.ts'
import { needsBody } from './route.ts'
import { tagDescriptions } from './tags.ts'

type Json = Record<string, unknown>

export const apiVersion = '0.5.4'

const errorStatuses = {
  400: 'The request is not valid; `details` says which field and why.',
  401: 'No credential, or one that is not valid any more.',
  403: 'The credential does not allow this, or the plan does not.',
  404: 'Not found, or not yours.',
  409: 'Not possible in the present state; `code` says why.',
  412: 'The resource is not what `If-Match` says any more.',
  413: 'The body is too large.',
  415: 'The body is not JSON.',
  429: 'Too many requests; wait as long as `Retry-After` says.',
  500: 'A fault of the server.',
  503: 'Not available right now; try again after `Retry-After` seconds.',
} as const
type ErrorStatus = keyof typeof errorStatuses

const errorSchema = {
  title: 'Error',
  type: 'object',
  required: ['error', 'status'],
  properties: {
    error: { type: 'string', description: 'What went wrong, for people.' },
    status: { type: 'integer', format: 'uint16', minimum: 0, maximum: 65_535, description: 'The HTTP status.' },
    code: { type: 'string', description: 'What went wrong, for programs.' },
    request_id: { type: 'string' },
    details: {
      type: 'array',
      items: {
        type: 'object',
        required: ['field', 'message'],
        properties: { field: { type: 'string' }, message: { type: 'string' } },
      },
    },
  },
}

/** RFC 9457, for who accepts `application/problem+json`. */
const problemSchema = {
  title: 'Problem',
  type: 'object',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: { type: 'string', description: '`about:blank`: `code` says more.' },
    title: { type: 'string', description: 'The HTTP status in words.' },
    detail: { type: 'string', description: 'What went wrong, for people.' },
    ...errorSchema.properties,
  },
}

export function buildOpenApi(operations: Readonly<Record<string, Operation>>): Json {
  const components = new Map<string, unknown>([
    ['Error', errorSchema],
    ['Problem', problemSchema],
  ])
  const paths: Record<string, Json> = {}
  const readable = new Set(
    Object.values(operations)
      .filter(isTagged)
      .map(({ path }) => path),
  )
  for (const [id, operation] of Object.entries(operations))
    (paths[operation.path] ??= { servers: [{ url: '/' }] })[operation.method.toLowerCase()] = describe(
      id,
      operation,
      components,
      readable,
    )
  const tags = new Set(Object.values(operations).map(operation => operation.tag))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Mote',
      version: apiVersion,
      summary: 'Control plane of a microVM cloud',
      description: 'Projects, apps, deployments, volumes, databases, networks and billing of microVM workloads.',
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/v1', description: 'Every path below carries this prefix itself, and so names its own base.' }],
    tags: [...tags].map(name => ({ name, description: tagDescriptions[name] ?? name })),
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description: 'A session JWT, or a personal access token `svc_pat_...`.',
        },
      },
      schemas: Object.fromEntries([...components].toSorted(([a], [b]) => a.localeCompare(b))),
      responses: Object.fromEntries(
        Object.entries(errorStatuses).map(([status, description]) => [
          `Error${status}`,
          {
            description,
            content: {
              'application/json': { schema: reference('Error') },
              'application/problem+json': { schema: reference('Problem') },
            },
          },
        ]),
      ),
    },
  }
}

function describe(
  id: string,
  operation: Operation,
  components: Map<string, unknown>,
  readable: ReadonlySet<string>,
): Json {
  const parameters = parametersOf(operation, components, readable)
  return {
    operationId: id,
    tags: [operation.tag],
    summary: operation.summary,
    security: operation.auth === 'bearer' ? [{ bearer: [] }] : [],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(operation, components),
    responses: {
      200: success(operation, components),
      ...Object.fromEntries(
        failures(operation, readable).map(status => [status, { $ref: `#/components/responses/Error${status}` }]),
      ),
    },
    ...(operation.auth === 'bearer' ? { 'x-mote-scope': operation.scope } : {}),
    'x-mote-right': rightOf(operation),
    ...(operation.adminOnly ? { 'x-mote-admin-only': true } : {}),
    ...(operation.addition ? { 'x-mote-addition': true } : {}),
  }
}

function parametersOf(operation: Operation, components: Map<string, unknown>, readable: ReadonlySet<string>): Json[] {
  const parameters = [
    ...parameterList('path', operation.params, components),
    ...parameterList('query', operation.query, components),
  ]
  if (operation.project === 'selected')
    parameters.push(
      {
        name: 'X-Project',
        in: 'header',
        required: false,
        description: "Slug or id of the project to act in. Default: the token's, else the default project.",
        schema: { type: 'string' },
      },
      {
        name: 'project',
        in: 'query',
        required: false,
        description: 'The same, for clients that cannot set headers.',
        schema: { type: 'string' },
      },
    )
  if (operation.method === 'POST' && operation.auth === 'bearer')
    parameters.push({
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      description: 'Makes retries safe: the same key and request is answered again from memory for 24 hours.',
      schema: { type: 'string', minLength: 1, maxLength: 255 },
    })
  if (isConditional(operation, readable))
    parameters.push({
      name: 'If-Match',
      in: 'header',
      required: false,
      description: 'The `ETag` of the resource as it was read: the change happens only if it is still that.',
      schema: { type: 'string' },
    })
  if (operation.answer === 'stream')
    parameters.push({
      name: 'Last-Event-ID',
      in: 'header',
      required: false,
      description: 'Goes on after this event.',
      schema: { type: 'string' },
    })
  return parameters
}

function parameterList(place: 'path' | 'query', schema: TSchema | undefined, components: Map<string, unknown>): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    readonly properties?: Readonly<Record<string, Json>>
    readonly required?: readonly string[]
  }
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = property
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: hoist(rest, components),
    }
  })
}

function requestBody(operation: Operation, components: Map<string, unknown>): Json {
  if (operation.rawBody || operation.upload)
    return { requestBody: { required: true, content: { 'application/octet-stream': {} } } }
  if (!operation.body) return {}
  return {
    requestBody: {
      required: needsBody(operation),
      content: { 'application/json': { schema: hoist(operation.body, components) } },
    },
  }
}

function success(operation: Operation, components: Map<string, unknown>): Json {
  const content = (type: string, schema: unknown) => ({ [type]: { schema } })
  switch (operation.answer) {
    case 'stream':
      return {
        description: 'Server-sent events; `data` is JSON.',
        content: content('text/event-stream', { type: 'string' }),
      }
    case 'text':
      return { description: 'Done', content: content('text/plain; charset=utf-8', { type: 'string' }) }
    case 'html':
      return { description: 'Done', content: content('text/html; charset=utf-8', { type: 'string' }) }
    case 'free':
      return {
        description: 'Done',
        ...(operation.list ? { headers: { Link: linkHeader } } : {}),
        content: content('application/json', {}),
      }
    default:
      return {
        description: 'Done',
        ...(operation.list ? { headers: { Link: linkHeader } } : {}),
        content: content('application/json', hoist(operation.answer, components)),
      }
  }
}

/** Whether `If-Match` is compared: there is a tag of what it changes. */
const isConditional = (operation: Operation, readable: ReadonlySet<string>) =>
  operation.auth === 'bearer' && isChange(operation) && readable.has(resourceOf(operation))

const linkHeader = {
  description: '`rel="next"`: where the next page is (RFC 8288). Absent on the last page.',
  schema: { type: 'string' },
}

function failures(operation: Operation, readable: ReadonlySet<string>): ErrorStatus[] {
  const bearer: ErrorStatus[] = operation.auth === 'bearer' ? [401, 403] : []
  const found: ErrorStatus[] = operation.params || operation.project !== 'none' ? [404] : []
  const body: ErrorStatus[] = operation.body || operation.rawBody || operation.upload ? [413] : []
  const media: ErrorStatus[] = operation.body ? [415] : []
  const state: ErrorStatus[] = operation.method === 'GET' ? [] : [409]
  const condition: ErrorStatus[] = isConditional(operation, readable) ? [412] : []
  const all = [
    400,
    ...bearer,
    ...found,
    ...state,
    ...condition,
    ...body,
    ...media,
    ...(operation.fails ?? []),
    429,
    500,
    503,
  ]
  return [...new Set(all)].toSorted((a, b) => a - b) as ErrorStatus[]
}

const reference = (title: string) => ({ $ref: `#/components/schemas/${title}` })

/** Replaces every schema that has a title by a reference to the component of that name. */
function hoist(schema: unknown, components: Map<string, unknown>): unknown {
  if (Array.isArray(schema)) return schema.map(item => hoist(item, components))
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, hoist(value, components)]))
  const { title } = copy
  // A property that is itself called "title" is a schema, not a name.
  if (typeof title !== 'string') return copy
  const known = components.get(title)
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(copy))
    throw new Error(`BUG: two different schemas are called ${title}`)
  components.set(title, copy)
  return reference(title)
}
