/**
 * Runs `stream` handlers. Until the response's head is written, a handler can still refuse with an ordinary error
 * response.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import type { Admission } from './admission.ts'
import { ApiError } from './errors.ts'
import { asApiError, logFailure } from './failure.ts'
import type { Handler } from './operation.ts'
import { stateOf } from './ports.ts'
import { addressKey } from './rate-limit.ts'
import { buildCall, type Route } from './route.ts'
import type { Upgrades } from './upgrade.ts'
import { SseStream, type StreamLimits, type StreamOwner, type StreamRegistry, streamHeaders } from './sse.ts'

type StreamHandler = Extract<Handler<never>, { readonly stream: unknown }>

export interface StreamContext {
  readonly clock: Clock
  readonly limits: StreamLimits
  readonly registry: StreamRegistry
  readonly admission: Admission
  readonly upgrades: Upgrades
}

export async function runStream(
  context: StreamContext,
  route: Route,
  handler: StreamHandler,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const stream = new SseStream(reply.raw, {
    limits: context.limits,
    lastEventId: lastEventId(request),
    onOpen: () => {
      reply.hijack()
      reply.raw.writeHead(200, { ...definedHeaders(reply), ...streamHeaders })
    },
    stillAllowed: () => context.admission.stillAllowed(request, route.operation),
    check: route.checkEvent,
  })
  const unused = { note: () => undefined, setCookie: () => undefined }
  const call = buildCall(route, request, { who: stateOf(request), signal: () => stream.signal, ...unused })
  if (!context.registry.add(ownerOf(request), stream)) {
    stream.close()
    throw new ApiError('rate_limited', 'Too many open event streams. Close one first.', { retryAfterSeconds: 5 })
  }
  endWithCredential(context.clock, stateOf(request).caller?.expiresAt ?? null, stream)
  const finished = handler.stream(call, stream).then(
    () => stream.open(),
    (error: unknown) => {
      if (!reply.sent) throw error
      // The head was already sent, so the stream can only be closed; the client will reconnect.
      logFailure(request.log, asApiError(error))
    },
  )
  try {
    await Promise.race([stream.opened, finished])
  } catch (error) {
    stream.close()
    throw error
  }
  finished.then(
    () => stream.close(),
    () => {},
  )
  if (reply.sent) return
  // The stream ended before its head was sent: the client disconnected, or the server stops.
  if (!reply.raw.destroyed) throw new ApiError('unavailable', 'The server is restarting. Try again in a moment.')
  reply.hijack()
}

/** Longest delay of a Node timer. For a credential that expires later, the check at each heartbeat ends the stream. */
const longestTimerMs = 2 ** 31 - 1

/** Ends a stream when the credential that opened it expires. */
export function endWithCredential(
  clock: Clock,
  expiresAt: Date | null,
  stream: Pick<SseStream, 'signal' | 'end'>,
): void {
  if (expiresAt === null) return
  const leftMs = expiresAt.getTime() - clock.now().getTime()
  if (leftMs > longestTimerMs) return
  const timer = setTimeout(() => stream.end('the credential has expired'), Math.max(0, leftMs))
  timer.unref()
  stream.signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
}

/**
 * Returns the `Last-Event-ID` of a request. Browsers cannot set that header on the first connection, so a query
 * parameter is accepted, too.
 */
function lastEventId(request: FastifyRequest): string | undefined {
  const header = request.headers['last-event-id']
  const { query } = request
  const id = header ?? (typeof query === 'object' && query !== null ? Reflect.get(query, 'last_event_id') : undefined)
  return typeof id === 'string' && id !== '' && id.length <= 200 ? id : undefined
}

export function ownerOf(request: FastifyRequest): StreamOwner {
  const { caller, ip } = stateOf(request)
  if (!caller) return { key: `ip:${addressKey(ip)}` }
  const credentialId = caller.via.kind === 'session' ? caller.via.sessionId : caller.via.patId
  return { key: `user:${caller.userId}`, userId: caller.userId, credentialId }
}

export function definedHeaders(reply: FastifyReply): Record<string, string | number | string[]> {
  const headers: Record<string, string | number | string[]> = {}
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) headers[name] = value
  return headers
}
