/**
 * Runs `bytes` handlers. Until the response's head is written, a handler can still refuse with an ordinary error
 * response.
 */
import { pipeline } from 'node:stream/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { create as contentDisposition } from 'content-disposition'
import { ApiError } from './errors.ts'
import { asApiError, logFailure } from './failure.ts'
import type { ByteAnswer, Handler } from './operation.ts'
import { stateOf } from './ports.ts'
import { buildCall, type Route } from './route.ts'
import { definedHeaders, endWithCredential, ownerOf, type StreamContext } from './stream-route.ts'

type BytesHandler = Extract<Handler<never>, { readonly bytes: unknown }>

/**
 * Interval at which a transfer's credential and progress are checked. A client that reads nothing for three intervals
 * is disconnected.
 */
const checkMs = 20_000
const mostIdleChecks = 3

export async function runBytes(
  context: StreamContext,
  route: Route,
  handler: BytesHandler,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const ended = new AbortController()
  reply.raw.once('close', () => ended.abort())
  const { signal } = ended
  const unused = { note: () => undefined, setCookie: () => undefined }
  const call = buildCall(route, request, { who: stateOf(request), signal: () => signal, ...unused })
  const transfer = { signal, end: (reason: string) => ended.abort(new Error(reason)) }
  const owner = ownerOf(request)
  if (!context.registry.add({ ...owner, key: `downloads of ${owner.key}` }, transfer))
    throw new ApiError('rate_limited', 'Too many downloads at once. Wait for one to end.', { retryAfterSeconds: 5 })
  endWithCredential(context.clock, stateOf(request).caller?.expiresAt ?? null, transfer)
  try {
    const answer = await handler.bytes(call)
    if (answer.body === undefined) throw unsatisfiable(reply, answer)
    reply.hijack()
    const head = Object.assign(definedHeaders(reply), bytesHeaders(answer))
    reply.raw.writeHead(answer.part ? 206 : 200, head)
    using _ = supervised(reply, () => context.admission.stillAllowed(request, route.operation), transfer)
    await pipeline(answer.body, reply.raw, { signal })
  } catch (error) {
    if (!reply.sent) throw error
    // The head was already sent, so close the connection: fewer bytes than `Content-Length` show the client that the
    // transfer failed.
    reply.raw.destroy()
    if (!signal.aborted) logFailure(request.log, asApiError(error))
  } finally {
    ended.abort()
  }
}

/** Ends the transfer when the credential is revoked or the client has stopped reading. */
function supervised(
  reply: FastifyReply,
  stillAllowed: () => Promise<boolean>,
  { end }: { readonly end: (reason: string) => void },
): Disposable {
  let written = 0
  let idle = 0
  const timer = setInterval(async () => {
    const { bytesWritten = 0 } = reply.raw.socket ?? {}
    idle = bytesWritten === written ? idle + 1 : 0
    written = bytesWritten
    if (idle >= mostIdleChecks) end('the client reads nothing')
    else if (!(await stillAllowed().catch(() => true))) end('no longer allowed')
  }, checkMs)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

function unsatisfiable(reply: FastifyReply, { sizeBytes = 0 }: ByteAnswer): ApiError {
  reply.header('content-range', `bytes */${sizeBytes}`)
  return new ApiError(
    'range_not_satisfiable',
    `The Range begins after the end of the file, which has ${sizeBytes} bytes.`,
  )
}

/** Headers that make a browser save the bytes instead of displaying them, because they are user content. */
function bytesHeaders({ name, version, sizeBytes, part }: ByteAnswer): Record<string, string | number> {
  const length = part?.count ?? sizeBytes
  const end = part ? part.first + part.count - 1 : 0
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': contentDisposition(name, { type: 'attachment' }),
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
    'cache-control': 'no-store',
    'accept-ranges': sizeBytes === undefined ? 'none' : 'bytes',
    etag: `"${version}"`,
    ...(length === undefined ? {} : { 'content-length': length }),
    ...(part ? { 'content-range': `bytes ${part.first}-${end}/${sizeBytes}` } : {}),
  }
}
