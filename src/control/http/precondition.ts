/**
 * `If-Match` on operations that change a resource (RFC 9110, 13.1.1): the change happens only if the resource is
 * unchanged since the client read it. Changes of one resource are serialized by a lock in the first statement of their
 * transactions, so the compared version is the one that is changed. Tags are compared without their `W/` prefix: ours
 * are declared weak, but are hashes of every byte.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { statement, type Tx } from '../../db/db.ts'
import { semaphore } from '../../lib/semaphore.ts'
import { ApiError } from './errors.ts'
import { JsonText, type Operation, tagOf } from './operation.ts'
import { stateOf } from './ports.ts'
import { buildCall, type Route, signalOf } from './route.ts'

const lockResource = statement(
  'http.lockResource',
  `SELECT pg_advisory_xact_lock(hashtextextended('http ' || $1::text, 0))`,
)

/** Limits concurrent checks: each holds a database session for its transaction and needs a second one to read. */
const atOnce = semaphore(4)

const isChange = ({ method }: Operation) => method === 'PUT' || method === 'PATCH' || method === 'DELETE'

/** Returns whether the response has an entity tag and represents a single resource. */
export const isTagged = (operation: Operation) => !operation.list && isRevalidated(operation)

/** Returns whether the response has an entity tag that `If-None-Match` is compared with. */
export const isRevalidated = ({ method, answer, secretAnswer }: Operation) =>
  method === 'GET' && !secretAnswer && (typeof answer !== 'string' || answer === 'free')

/** Returns the path of the resource that the operation changes. */
const resourceOf = ({ path, changes }: Operation) => changes ?? path

/**
 * Returns whether `If-Match` is compared for this operation.
 * @param readable paths whose `GET` response has an entity tag
 */
export const isConditional = (operation: Operation, readable: ReadonlySet<string>) =>
  operation.auth === 'bearer' && isChange(operation) && readable.has(resourceOf(operation))

/** Returns the route that reads the resource changed by this route; undefined if there is no such `GET`. */
export function readerOf(route: Route, routes: readonly Route[]): Route | undefined {
  if (!isChange(route.operation) || !('write' in route.handler)) return undefined
  const path = resourceOf(route.operation)
  return routes.find(({ operation, handler }) => operation.path === path && isTagged(operation) && 'read' in handler)
}

export interface Precondition extends AsyncDisposable {
  /**
   * Must be the first statement of the transaction: locks the resource, then compares `If-Match`.
   * @throws ApiError 412
   */
  check(tx: Tx): Promise<void>
}

/** Begins a change with its `If-Match` check. @param reader route that reads the changed resource */
export async function beginChange(reader: Route, request: FastifyRequest, reply: FastifyReply): Promise<Precondition> {
  const wanted = request.headers['if-match']
  const key = `${stateOf(request).project?.id ?? stateOf(request).caller?.userId} ${pathOf(reader.operation, request)}`
  if (wanted === undefined)
    return {
      // Not awaited: PostgreSQL runs the transaction's later statements after this lock anyway.
      check: async tx => void tx.run(lockResource, [key]).catch(() => undefined),
      [Symbol.asyncDispose]: async () => undefined,
    }
  const release = await atOnce.take(signalOf(reply))
  return {
    async check(tx) {
      await tx.run(lockResource, [key])
      const tag = await currentTag(reader, request, reply)
      if (tag === undefined || !matches(wanted, tag))
        throw new ApiError(
          'precondition_failed',
          'The resource has changed since you read it (If-Match). Read it again, and repeat the change if it still applies.',
        )
    },
    [Symbol.asyncDispose]: async () => release(),
  }
}

/** Returns the entity tag of the resource; undefined if the resource does not exist. */
async function currentTag(reader: Route, request: FastifyRequest, reply: FastifyReply): Promise<string | undefined> {
  const { handler } = reader
  if (!('read' in handler)) return undefined
  const call = buildCall(reader, request, {
    who: stateOf(request),
    signal: () => signalOf(reply),
    note: () => undefined,
    setCookie: () => undefined,
  })
  try {
    const json = reader.json(await handler.read(call), reply)
    return json instanceof JsonText ? json.tag : tagOf(json)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined
    throw error
  }
}

const opaque = (tag: string) => tag.trim().replace(/^W\//, '')

const matches = (header: string, tag: string) =>
  header.trim() === '*' || header.split(',').some(candidate => opaque(candidate) === opaque(tag))

function pathOf({ path }: Operation, request: FastifyRequest): string {
  const params = Object(request.params)
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(Reflect.get(params, name)))
}
