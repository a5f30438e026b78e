/** Runs the handler of an admitted request, and sends its response. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { runBytes } from './bytes-route.ts'
import { ApiError } from './errors.ts'
import type { Handler } from './operation.ts'
import { cutList, linkOf, type ListRule, pageOf } from './paging.ts'
import { type ServerOptions, stateOf } from './ports.ts'
import { beginChange } from './precondition.ts'
import { sendJson, sendText } from './respond.ts'
import { buildCall, queryOf, type RecordedNote, type Route, signalOf } from './route.ts'
import { runSocket } from './socket-route.ts'
import { runStream, type StreamContext } from './stream-route.ts'
import { untilState } from './waiting.ts'
import { runWrite } from './write.ts'

export async function runHandler(
  options: Pick<ServerOptions, 'deps' | 'audit' | 'idempotency' | 'onRefusal'>,
  context: StreamContext,
  { route, reader }: { readonly route: Route; readonly reader: Route | undefined },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { handler, operation } = route
  if ('socket' in handler) return runSocket(context, route, handler, request, reply)
  if ('bytes' in handler) return runBytes(context, route, handler, request, reply)
  if ('stream' in handler) return runStream(context, route, handler, request, reply)
  const { attempt } = stateOf(request)
  if (attempt) {
    const answer = await attempt.answer
    for (const line of attempt.cookies) reply.header('set-cookie', line)
    return sendRead(context, route, request, reply, await waited(route, handler, request, reply, answer))
  }
  using place = await context.admission.place(request, reply)
  const notes: RecordedNote[] = []
  const call = buildCall(route, request, {
    who: stateOf(request),
    signal: () => signalOf(reply),
    note: note => void notes.push(note),
    setCookie: line => void reply.header('set-cookie', line),
  })
  if (operation.throttle === 'login') await context.admission.countLogin(request, reply, emailOf(call.body))
  if ('read' in handler) {
    // While a request waits for an agent or a source host, it does not count as running, so that the tenant's other
    // requests can run (shares.ts).
    if (operation.asksOthers) place.release()
    const answer = await handler.read(call)
    place.release()
    return sendRead(context, route, request, reply, await waited(route, handler, request, reply, answer))
  }
  place.release()
  await using precondition = reader && (await beginChange(reader, request, reply))
  const parts = { route, handler, call, notes, request, reply, precondition, admission: context.admission }
  const written = await runWrite(options, parts).catch(async (error: unknown) => {
    const { caller, project } = stateOf(request)
    if (error instanceof ApiError && caller)
      await options.onRefusal?.({ error, userId: caller.userId, projectId: project?.id })
    throw error
  })
  if (written.replayed) reply.header('idempotent-replayed', 'true')
  return sendJson(request, reply, operation, written.status, written.json)
}

/** Applies the parameter `?wait=`: returns the response once the resource has reached the given state. */
async function waited(
  route: Route,
  handler: Handler<never>,
  request: FastifyRequest,
  reply: FastifyReply,
  first: unknown,
): Promise<unknown> {
  const { waits } = route.operation
  if (waits === undefined || !('read' in handler)) return first
  const query = queryOf(route, request)
  if (query['wait'] === undefined) return first
  const signal = signalOf(reply)
  const readAgain = () =>
    handler.read(
      buildCall(route, request, {
        who: stateOf(request),
        signal: () => signal,
        note: () => undefined,
        setCookie: () => undefined,
      }),
    )
  return untilState(waits, query, first, readAgain, signal)
}

function sendRead(
  { admission }: StreamContext,
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
  found: unknown,
) {
  const { operation } = route
  const answer = operation.list ? pageIn(operation.list, route, request, reply, found) : found
  if (operation.answer === 'text') return sendText(reply, 'text', String(answer))
  if (operation.answer === 'html') return sendText(reply, operation.forms ? 'forms' : 'html', String(answer))
  const json = route.json(answer, reply)
  admission.countAnswer(request, json.length)
  return sendJson(request, reply, operation, 200, json)
}

/** Returns the requested page of the items, and sets the `Link` header if more items follow. */
function pageIn(list: ListRule, route: Route, request: FastifyRequest, reply: FastifyReply, found: unknown): unknown {
  const { answer, next } = cutList(list, pageOf(list, queryOf(route, request)), found)
  if (next) reply.header('link', linkOf(request.url, next))
  return answer
}

function emailOf(body: unknown): string {
  const email: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'email') : undefined
  return typeof email === 'string' ? email : ''
}
