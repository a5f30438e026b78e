/** Documents the request bodies and responses of an operation, with headers and errors. */
import { exampleOf } from '../http/example.ts'
import { bodyLimitOf, readable } from '../http/body-limit.ts'
import { type Components, hoist, type Json } from './openapi-components.ts'
import type { ErrorStatus } from './openapi-errors.ts'
import { type HeaderName, headersOf } from './openapi-headers.ts'
import type { EventTable, Operation } from '../http/operation.ts'
import { isConditional, isRevalidated } from '../http/precondition.ts'
import { needsBody } from '../http/route.ts'
import { encodeEvent } from '../http/sse.ts'
import { takesKey } from '../http/write.ts'

export function requestBodyOf(operation: Operation, components: Components): Json {
  const { body, rawBody, upload } = operation
  const limit = readable(bodyLimitOf(operation))
  if (rawBody || upload)
    return {
      requestBody: {
        description: `The raw bytes, at most ${limit}.`,
        required: true,
        content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
      },
    }
  if (!body) return {}
  return {
    requestBody: {
      description: `JSON, at most ${limit}. Unknown members are ignored.`,
      required: needsBody(operation),
      content: { 'application/json': withExample(hoist(body, components), exampleOf(body)) },
    },
  }
}

const withExample = (schema: unknown, example: unknown): Json =>
  example === undefined ? { schema } : { schema, example }

/** Returns the responses of an operation, by status. */
export function responsesOf(operation: Operation, components: Components, readable: ReadonlySet<string>): Json {
  const failures = failuresOf(operation, readable)
  return {
    ...(operation.answer === 'socket' ? { 101: switching(operation) } : { 200: success(operation, components) }),
    ...(operation.fails?.includes(416) ? { 206: part } : {}),
    ...(isRevalidated(operation) ? { 304: unchanged } : {}),
    ...Object.fromEntries(failures.map(status => [status, { $ref: `#/components/responses/Error${status}` }])),
  }
}

const byteHeaders = [
  'X-Request-Id',
  'Cache-Control',
  'RateLimit',
  'RateLimit-Policy',
  'ETag',
  'Content-Disposition',
] as const

const unchanged = {
  description: 'The resource still has the `ETag` in `If-None-Match`. The response has no body.',
  headers: headersOf(['X-Request-Id', 'Cache-Control', 'ETag']),
}

const bytes = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } } as const

const part = {
  description: 'The requested range of bytes.',
  headers: headersOf([...byteHeaders, 'Content-Range']),
  content: bytes,
}

const switching = ({ subprotocol }: Operation): Json => ({
  description: `The connection becomes a WebSocket (RFC 6455) with the subprotocol \`${subprotocol}\`.`,
})

function success(operation: Operation, components: Components): Json {
  const headers = headersOf(successHeaders(operation))
  const { answer } = operation
  switch (answer) {
    case 'stream':
      return {
        description: `Server-sent events until the client closes the connection: ${namesOf(operation.events)}. \`data\` is JSON.`,
        headers,
        content: { 'text/event-stream': eventStream(operation.events ?? {}, components) },
      }
    case 'bytes':
      return { description: 'The bytes of the file.', headers: headersOf(byteHeaders), content: bytes }
    case 'text':
      return {
        description: 'Plain text.',
        headers,
        content: { 'text/plain; charset=utf-8': { schema: { type: 'string' }, example: 'ok\n' } },
      }
    case 'html':
      return {
        description: 'An HTML page for browsers.',
        headers,
        content: { 'text/html; charset=utf-8': { schema: { type: 'string' }, example: '<!doctype html>' } },
      }
    case 'free':
      return { description: 'Any JSON.', headers, content: { 'application/json': { schema: {} } } }
    default:
      return {
        description: operation.list
          ? 'The items of the list, in the documented order.'
          : 'Success. The body is the result of the operation.',
        headers,
        content: { 'application/json': withExample(hoist(answer, components), exampleOf(answer)) },
      }
  }
}

/**
 * Describes a stream as text, with the schema of its events in `contentSchema` (JSON Schema 2020-12). OpenAPI 3.1
 * cannot describe the items of a stream; with any schema other than a string, client generators read the whole stream
 * as one JSON value.
 */
function eventStream(events: EventTable, components: Components): Json {
  const branches = Object.entries(events).map(([event, schema]) => ({
    type: 'object',
    required: ['event', 'data'],
    properties: {
      event: { const: event },
      id: { type: 'string', description: 'Id of the event, to be sent as `Last-Event-ID` to resume after it.' },
      data: hoist(schema, components),
    },
  }))
  const text = Object.entries(events).map(([event, schema]) => encodeEvent({ event, data: exampleOf(schema) }))
  return {
    schema: { type: 'string', contentMediaType: 'text/event-stream', contentSchema: { oneOf: branches } },
    example: `retry: 2000\n\n${text.join('')}`,
  }
}

const namesOf = (events: EventTable = {}) =>
  Object.keys(events)
    .map(name => `\`${name}\``)
    .join(', ')

function successHeaders(operation: Operation): HeaderName[] {
  const { list } = operation
  return [
    'X-Request-Id',
    'Cache-Control',
    ...(isLimited(operation) ? (['RateLimit', 'RateLimit-Policy'] as const) : []),
    ...(isRevalidated(operation) ? (['ETag'] as const) : []),
    ...(list ? (['Link'] as const) : []),
    ...(takesKey(operation) ? (['Idempotent-Replayed'] as const) : []),
    ...(operation.setsCookie ? (['Set-Cookie'] as const) : []),
  ]
}

const isOpenEnded = (answer: Operation['answer']) => answer === 'stream' || answer === 'socket' || answer === 'bytes'
const isLimited = ({ throttle }: Operation) => throttle !== 'unlimited'

function failuresOf(operation: Operation, readable: ReadonlySet<string>): ErrorStatus[] {
  const { adminOnly, answer, auth, body, fails = [], params, project, rawBody, scope, upload } = operation
  const isBearer = auth === 'bearer'
  // An operation with a credential may respond 429, because refused credentials count against a rate limit. A stream
  // may respond 429, because the number of open streams per account is limited.
  const isRefusable = isLimited(operation) || isBearer || isOpenEnded(answer)
  const occurring: Readonly<Record<ErrorStatus, unknown>> = {
    400: true,
    401: isBearer,
    // Operations with the scope `read` never fail with 403: every credential and every member of a project may read.
    403: isBearer && (scope !== 'read' || adminOnly),
    404: isBearer && (params || project !== 'none'),
    // The error 409 occurs if an `Idempotency-Key` was already used for a different request.
    409: takesKey(operation),
    412: isConditional(operation, readable),
    413: body || rawBody || upload,
    415: body,
    416: false,
    429: isRefusable,
    500: true,
    503: true,
  }
  const statuses = Object.keys(occurring).map(Number) as ErrorStatus[]
  return statuses.filter(status => occurring[status] || fails.some(own => own === status))
}
