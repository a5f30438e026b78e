/** Sends responses: JSON with caching rules and entity tags, text, pages, failures. */
import { STATUS_CODES } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { tooLarge } from './body-limit.ts'
import { asApiError, type Failure, failureOf, isBodyTooLarge, logFailure } from './failure.ts'
import { formPageHeaders, jsonHeaders, pageHeaders } from './headers.ts'
import { JsonText, type Operation, tagOf } from './operation.ts'

/** Sends JSON text. A GET gets an entity tag, and a 304 if the client's copy is current (RFC 9110, 13.1.2). */
export function sendJson(
  request: FastifyRequest,
  reply: FastifyReply,
  operation: Operation,
  status: number,
  json: string | JsonText,
) {
  reply.code(status).headers(jsonHeaders)
  const body = json instanceof JsonText ? json.bytes : bytesOf(json)
  if (operation.method !== 'GET' || operation.secretAnswer || status !== 200)
    return reply.header('cache-control', 'no-store').send(body)
  const tag = json instanceof JsonText ? json.tag : tagOf(json)
  reply.header('cache-control', operation.auth === 'none' ? 'no-cache' : 'private, no-cache').header('etag', tag)
  return matches(request.headers['if-none-match'], tag) ? reply.code(304).send() : reply.send(body)
}

/** Sent as bytes, because Fastify adds a `charset` to the content type of a string that is JSON. */
const bytesOf = (json: string) => Buffer.from(json)

/** Compares entity tags weakly: ignores the `W/` prefix of both. */
function matches(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false
  if (header.trim() === '*') return true
  return header.split(',').some(candidate => candidate.trim().replace(/^W\//, '') === tag.slice(2))
}

const textHeaders = {
  text: { 'content-type': 'text/plain; charset=utf-8' },
  html: pageHeaders,
  forms: formPageHeaders,
} as const

export function sendText(reply: FastifyReply, kind: keyof typeof textHeaders, body: string) {
  const cache = kind === 'forms' ? 'no-store' : 'no-cache'
  return reply.headers(textHeaders[kind]).header('cache-control', cache).send(body)
}

export function sendFailure(thrown: unknown, request: FastifyRequest, reply: FastifyReply) {
  const error = isBodyTooLarge(thrown) ? tooLarge(request.routeOptions.config?.mote?.operation) : asApiError(thrown)
  logFailure(request.log, error)
  const { status, headers, body } = failureOf(error, request.id)
  const isProblem = wantsProblem(request.headers.accept)
  const type = isProblem ? { 'content-type': problemType } : {}
  return reply
    .code(status)
    .headers({ ...jsonHeaders, ...type, ...headers, 'cache-control': 'no-store' })
    .send(bytesOf(JSON.stringify(isProblem ? problemOf(status, body) : body)))
}

const problemType = 'application/problem+json'

// Returns whether the client accepts `application/problem+json` by name. `*/*` is not enough, because clients that do
// not know this type send it.
const wantsProblem = (accept = '') =>
  accept.split(',').some(part => {
    const [type = '', ...parameters] = part.split(';').map(one => one.trim().toLowerCase())
    return type === problemType && !parameters.some(one => /^q=0(?:\.0*)?$/.test(one))
  })

/** Converts an error body to problem details (RFC 9457), which also contain all members of the ordinary error body. */
const problemOf = (status: number, body: Failure['body']) => ({
  type: 'about:blank',
  title: STATUS_CODES[status] ?? 'Error',
  detail: body['error'],
  ...body,
})
