/** Runs `socket` handlers. Until the handshake, a handler can still refuse with an ordinary error response. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ApiError } from './errors.ts'
import { asApiError, logFailure } from './failure.ts'
import type { Handler } from './operation.ts'
import { stateOf } from './ports.ts'
import { buildCall, type Route, signalOf } from './route.ts'
import { defaultSocketLimits, SocketConnection } from './socket.ts'
import { endWithCredential, ownerOf, type StreamContext } from './stream-route.ts'

type SocketHandler = Extract<Handler<never>, { readonly socket: unknown }>

export async function runSocket(
  context: StreamContext,
  route: Route,
  handler: SocketHandler,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { operation } = route
  const protocol = operation.subprotocol ?? ''
  const unused = { note: () => undefined, setCookie: () => undefined }
  const call = buildCall(route, request, { who: stateOf(request), signal: () => signalOf(reply), ...unused })
  const owner = { ...ownerOf(request), key: `sockets of ${ownerOf(request).key}` }
  if (context.registry.isFull(owner))
    throw new ApiError('rate_limited', 'Too many open connections. Close one first.', { retryAfterSeconds: 5 })
  const run = await handler.socket(call)
  if (!context.upgrades.has(request.raw, protocol))
    throw new ApiError('invalid_request', `Open this path as a WebSocket with the subprotocol ${protocol}.`)
  reply.hijack()
  reply.raw.statusCode = 101
  const socket = await context.upgrades.accept(request.raw, reply.raw, protocol)
  if (!socket) return
  const connection = new SocketConnection(socket, {
    limits: defaultSocketLimits,
    stillAllowed: () => context.admission.stillAllowed(request, operation),
  })
  // Node detaches the response from the connection, so the response's `close` event, which writes the request's log
  // line, must be emitted explicitly.
  connection.signal.addEventListener('abort', () => reply.raw.emit('close'), { once: true })
  if (!context.registry.add(owner, connection)) return connection.close(1008, 'Too many open connections.')
  endWithCredential(context.clock, stateOf(request).caller?.expiresAt ?? null, connection)
  run(connection).then(
    () => connection.close(1000, ''),
    (error: unknown) => {
      logFailure(request.log, asApiError(error))
      connection.fail()
    },
  )
}
