/**
 * Reads in one trip to the database. Who asks is a question to the database, and so is what he reads; the second does not
 * wait for the first where the same credential has been answered before. The handler runs for whom it belonged to then, and
 * its statements leave together with the question whether it still does. Nothing of it is told before that is answered, and
 * if the answer is anything else, it was for nothing (docs/decisions/0073-pipelined-reads-and-writes.md).
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Attempt, CallerInProject } from './ports.ts'
import { buildCall, type Route, signalOf } from './route.ts'

export type BeginRead = (request: FastifyRequest, reply: FastifyReply, who: CallerInProject) => Attempt

/** Undefined for operations that must not run speculatively: those that write, stream, or call other services. */
export function beginReadOf(route: Route): BeginRead | undefined {
  const { handler, operation } = route
  if (operation.method !== 'GET' || operation.auth !== 'bearer' || operation.asksOthers || !('read' in handler))
    return undefined
  return (request, reply, who) => {
    const cookies: string[] = []
    // Async, so that a validation error rejects the promise, like an error of the handler, instead of throwing here.
    const read = async (): Promise<unknown> => {
      const notes = { note: () => undefined, setCookie: (line: string) => void cookies.push(line) }
      return handler.read(buildCall(route, request, { who, signal: () => signalOf(reply), ...notes }))
    }
    const answer = read()
    answer.catch(() => undefined)
    return { who, answer, cookies }
  }
}
