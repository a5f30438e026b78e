/**
 * Documents the parameters of an operation: the declared ones, and those that the server itself reads for every
 * operation of a kind.
 */
import type { TSchema } from 'typebox'
import { exampleOf } from '../http/example.ts'
import { type Components, hoist, type Json } from './openapi-components.ts'
import type { Operation } from '../http/operation.ts'
import { isConditional, isRevalidated } from '../http/precondition.ts'
import { takesKey } from '../http/write.ts'

/** Returns the parameters of an operation. @param readable paths whose `GET` responds with an entity tag */
export function parametersOf(operation: Operation, components: Components, readable: ReadonlySet<string>): Json[] {
  return [
    ...declared('path', operation.params, components),
    ...declared('query', operation.query, components),
    ...(operation.project === 'selected' ? projectParameters : []),
    ...(takesKey(operation) ? [idempotencyKey] : []),
    ...(isConditional(operation, readable) ? [ifMatch] : []),
    ...(isRevalidated(operation) ? [ifNoneMatch] : []),
    ...(operation.answer === 'stream' ? streamParameters : []),
    ...(operation.answer === 'bytes' ? rangeParameters : []),
  ]
}

function declared(place: 'path' | 'query', schema: TSchema | undefined, components: Components): Json[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    readonly properties?: Readonly<Record<string, Json>>
    readonly required?: readonly string[]
  }
  return Object.entries(properties).map(([name, property]) => {
    const { description, examples: _, ...rest } = property
    const example = exampleOf(property)
    return {
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: hoist(rest, components),
      ...(example === undefined ? {} : { example }),
    }
  })
}

const header = (name: string, description: string, example: string, limits: Json = {}): Json => ({
  name,
  in: 'header',
  required: false,
  description,
  schema: { type: 'string', ...limits },
  example,
})

const projectParameters: readonly Json[] = [
  header(
    'X-Project',
    'Slug or id of the project that the request is for. Default: the project of the token, or else the default project of the account.',
    'blue',
  ),
  {
    name: 'project',
    in: 'query',
    required: false,
    description:
      'The same as the header `X-Project`, for clients that cannot set headers. The header takes precedence.',
    schema: { type: 'string' },
    example: 'blue',
  },
]

const idempotencyKey = header(
  'Idempotency-Key',
  'Makes retries safe: a second request with the same key and content within 24 hours gets the stored response of the first.',
  '7c0a5b1e-deploy-42',
  { minLength: 1, maxLength: 255 },
)
const ifMatch = header(
  'If-Match',
  'The `ETag` of the resource when it was read. If the resource has changed since, the request fails with 412.',
  'W/"2jmj7l5rSw0yVb_vlWAYkK_YBwk"',
)
const ifNoneMatch = header(
  'If-None-Match',
  'The `ETag` of the response that the client has stored. If it is still current, the response is 304 without a body.',
  'W/"2jmj7l5rSw0yVb_vlWAYkK_YBwk"',
)
const rangeParameters: readonly Json[] = [
  header(
    'Range',
    'Range of bytes to read (RFC 9110, 14.2). Only a single range is supported; for any other value, the whole file is sent.',
    'bytes=0-1023',
  ),
  header(
    'If-Range',
    'The `ETag` of the part that the client already has. If the file has changed since, `Range` is ignored and the whole file is sent.',
    '"1a-2b-400-67d3"',
  ),
]
const streamParameters: readonly Json[] = [
  header('Last-Event-ID', 'Id of the last event that the client received. The stream resumes after it.', '1042'),
  {
    name: 'last_event_id',
    in: 'query',
    required: false,
    description:
      'The same as the header `Last-Event-ID`, for browsers, which cannot set headers. The header takes precedence.',
    schema: { type: 'string' },
    example: '1042',
  },
]
