/**
 * Speculative reads, which need one round trip to the database instead of two. If the credential of a request is known,
 * the handler runs for the last known caller, and its queries are sent together with the authentication query. Its
 * result is sent only if authentication returns that caller, and is discarded otherwise
 * (docs/decisions/0073-pipelined-reads-and-writes.md).
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Attempt, CallerInProject } from './ports.ts'
import { buildCall, type Route, signalOf } from './route.ts'

export type BeginRead = (request: FastifyRequest, reply: FastifyReply, who: CallerInProject) => Attempt

/**
 * Returns the function that starts an operation's speculative read; undefined for operations that must not run
 * speculatively, because they write, stream, or call other services.
 */
export function beginReadOf(route: Route): BeginRead | undefined {
  const { handler, operation } = route
  if (operation.method !== 'GET' || operation.auth !== 'bearer' || operation.asksOthers || !('read' in handler))
    return undefined
  return (request, reply, who) => {
    const cookies: string[] = []
    // An async function, so that a validation error rejects the promise, like an error of the handler, instead of being
    // thrown here.
    const read = async (): Promise<unknown> => {
      const notes = { note: () => undefined, setCookie: (line: string) => void cookies.push(line) }
      return handler.read(buildCall(route, request, { who, signal: () => signalOf(reply), ...notes }))
    }
    const answer = read()
    answer.catch(() => undefined)
    return { who, answer, cookies }
  }
}
