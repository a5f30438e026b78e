/** Prepares one operation to run: compiles its schemas, finds its handler, builds its calls. */
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import { lazily } from '../../lib/once.ts'
import { ApiError } from './errors.ts'
import { describeFaults } from '../../lib/faults.ts'
import { parseJsonBody } from './json-body.ts'
import { pageOf } from './paging.ts'
import {
  type AuditNote,
  type Call,
  type Caller,
  type Handler,
  JsonText,
  type Operation,
  type ProjectAccess,
  type SseEvent,
} from './operation.ts'
import { type RouteInfo, stateOf } from './ports.ts'
import { eventCheck } from './stream-events.ts'
import { bodyValidator, stringsValidator } from './validate.ts'

export interface Route extends RouteInfo {
  readonly handler: Handler<never>
  readonly params: (values: Readonly<Record<string, unknown>>) => unknown
  readonly query: (values: Readonly<Record<string, unknown>>) => unknown
  /** Parses a body of this media type; `bytes` is undefined if the request has no body. */
  readonly body: (bytes: unknown, mediaType: string | undefined) => unknown
  /** Serializes the response as JSON, without members that the schema does not name. */
  readonly json: (answer: unknown, reply: FastifyReply) => string | JsonText
  /**
   * Checks an event; throws if the operation does not declare it. Set only when responses are checked (`checkAnswers`).
   */
  readonly checkEvent?: (event: SseEvent) => void
}

export interface RecordedNote extends AuditNote {
  readonly actor: { readonly userId: string; readonly projectId?: string | undefined } | undefined
}

const ignored = () => ({})

export function createRoute(
  id: string,
  operation: Operation,
  handler: Handler<never> | undefined,
  checkAnswers: boolean,
): Route {
  if (!handler) throw new Error(`BUG: no feature implements ${id}`)
  requireAuditable(id, operation, handler)
  return {
    id,
    operation,
    handler,
    params: operation.params ? stringsValidator(operation.params) : ignored,
    query: operation.query ? stringsValidator(operation.query) : ignored,
    body: bodyOf(operation),
    json: jsonOf(id, operation.answer, checkAnswers),
    ...(checkAnswers && operation.events ? { checkEvent: eventCheck(id, operation.events) } : {}),
  }
}

/** Makes the server fail at startup if a mutation could not write its audit row in its own transaction. */
function requireAuditable(id: string, operation: Operation, handler: Handler<never>): void {
  if (operation.method === 'GET' || operation.auth === 'none' || operation.unaudited) return
  if (!('write' in handler)) throw new Error(`BUG: ${id} changes something, so its handler must have the "write" form`)
}

/**
 * Returns whether the OpenAPI document marks the body as required: as declared, else if any of its members is required.
 */
export function needsBody(operation: Operation): boolean {
  const { required } = (operation.body ?? {}) as { readonly required?: readonly string[] }
  return operation.bodyRequired ?? (required !== undefined && required.length > 0)
}

/**
 * Returns whether a missing body is refused. A missing body counts as an empty object if that is valid, even if the
 * specification marks the body as required.
 */
function refusesNone(operation: Operation): boolean {
  const { type, required = [] } = (operation.body ?? {}) as {
    readonly type?: string
    readonly required?: readonly string[]
  }
  return type === 'object' ? required.length > 0 : needsBody(operation)
}

function bodyOf(operation: Operation): Route['body'] {
  const anyType = operation.rawBody || operation.upload
  const missing = () =>
    new ApiError(
      'invalid_request',
      anyType ? 'The request needs a body.' : 'The request needs a body: send it as application/json.',
      { details: [{ field: 'body', message: 'is required' }] },
    )
  if (operation.rawBody)
    return bytes => {
      if (!Buffer.isBuffer(bytes) || bytes.length === 0) throw missing()
      return bytes
    }
  if (operation.upload)
    return stream => {
      if (!(stream instanceof Readable)) throw missing()
      return stream
    }
  if (!operation.body) return () => undefined
  const required = refusesNone(operation)
  const validate = bodyValidator(operation.body)
  return (bytes, mediaType) => {
    // An empty body counts as missing even if the request has a content type, because many clients always send one.
    if (Buffer.isBuffer(bytes) && bytes.length > 0) {
      if (isJson(mediaType)) return validate(parseJsonBody(bytes))
      throw new ApiError('unsupported_media_type', 'Send the body as application/json.')
    }
    if (required) throw missing()
    return validate({})
  }
}

const isJson = (mediaType = '') =>
  /^application\/(?:json|[\w.+-]+\+json)\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?;?$/i.test(mediaType.trim())

function jsonOf(id: string, answer: Operation['answer'], check: boolean): Route['json'] {
  if (typeof answer === 'string') return value => (value instanceof JsonText ? value : JSON.stringify(value ?? null))
  // The serializer is compiled for the first response, as validators are: compiling a hundred of them at startup would
  // cost time and memory.
  const schema: Readonly<Record<string, unknown>> = { ...answer }
  const verify = check ? answerCheck(id, answer) : undefined
  return (value, reply) => {
    if (value instanceof JsonText) {
      verify?.(value.toString())
      return value
    }
    const text = textOf(value, schema, reply)
    if (text === 'null' && Reflect.get(answer, 'type') !== 'null') throw new Error(`BUG: ${id} answered nothing`)
    verify?.(text)
    return text
  }
}

function textOf(value: unknown, schema: Readonly<Record<string, unknown>>, reply: FastifyReply): string {
  return isRecord(value) ? String(reply.serializeInput(value, schema)) : JSON.stringify(value ?? null)
}

function answerCheck(id: string, schema: TSchema): (text: string) => void {
  const validator = lazily(() => Compile(schema))
  return text => {
    const value: unknown = JSON.parse(text)
    if (validator().Check(value)) return
    const faults = describeFaults(schema, validator().Errors(value)[1]).map(fault => `${fault.field} ${fault.message}`)
    throw new Error(`BUG: the answer of ${id} is not what it declares: ${faults.join('; ')}`)
  }
}

export interface CallParts {
  /** The authenticated caller and its project. */
  readonly who: { readonly caller: Caller | undefined; readonly project: ProjectAccess | undefined }
  /** Called when the handler first reads its signal; most handlers never do. */
  readonly signal: () => AbortSignal
  /** Called with each audit note of the handler. */
  readonly note: (note: RecordedNote) => void
  readonly setCookie: (line: string) => void
}

/** Validates the request and builds the handler's call. @throws ApiError `invalid_request` */
export function buildCall(route: Route, request: FastifyRequest, parts: CallParts): Call<never> {
  let signal: AbortSignal | undefined
  const state = stateOf(request)
  const query = queryOf(route, request)
  const { list } = route.operation
  const call = {
    params: route.params(recordOf(request.params)),
    query,
    page: list && pageOf(list, query),
    body: route.body(request.body, request.headers['content-type']),
    caller: parts.who.caller,
    project: parts.who.project,
    headers: request.headers,
    ip: state.ip,
    requestId: request.id,
    traceparent: state.traceparent,
    log: request.log,
    get signal() {
      signal ??= parts.signal()
      return signal
    },
    setCookie: (line: string) => {
      if (!route.operation.setsCookie) throw new Error(`BUG: ${route.id} sets a cookie, which it does not declare`)
      parts.setCookie(line)
    },
    audit: (note: AuditNote, actor?: RecordedNote['actor']) => parts.note({ ...note, actor }),
  }
  // The cast is needed because only the handler's type expresses the types that the validators have checked.
  return call as unknown as Call<never>
}

/** Returns a signal that aborts when the connection closes before the response was written. */
export function signalOf(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort()
  })
  return gone.signal
}

/** Returns the parsed query of the request. @throws ApiError `invalid_request` */
export const queryOf = (route: Route, request: FastifyRequest) => recordOf(route.query(recordOf(request.query)))

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {}
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
