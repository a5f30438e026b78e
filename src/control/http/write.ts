/**
 * Runs `write` handlers: the effect, its audit rows and the stored response of its Idempotency-Key in one transaction.
 */
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Tx } from '../../db/db.ts'
import { retryable } from '../../db/errors.ts'
import type { Admission } from './admission.ts'
import { ApiError, invalidField } from './errors.ts'
import type { Call, Handler, Operation } from './operation.ts'
import { type AuditEntry, type IdempotencyClaim, originOf, type ServerOptions, stateOf } from './ports.ts'
import type { Precondition } from './precondition.ts'
import type { RecordedNote, Route } from './route.ts'

type WriteHandler = Extract<Handler<never>, { readonly write: unknown }>

export interface Written {
  readonly json: string
  readonly status: number
  readonly replayed: boolean
}

/** A request whose handler writes. */
interface WriteRequest {
  readonly route: Route
  readonly handler: WriteHandler
  readonly call: Call<never>
  /** Audit notes that the handler adds. */
  readonly notes: RecordedNote[]
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly precondition?: Precondition | undefined
  readonly admission: Pick<Admission, 'place'>
}

export async function runWrite(
  options: Pick<ServerOptions, 'deps' | 'audit' | 'idempotency'>,
  { route, handler, call, notes, request, reply, precondition, admission }: WriteRequest,
): Promise<Written> {
  const claim = claimOf(route, request, call)
  const stored = async (tx: Tx): Promise<Written | undefined> => {
    const found = claim && (await options.idempotency.claim(tx, claim))
    if (!found) return undefined
    if (found.fingerprint !== claim.fingerprint)
      throw new ApiError('idempotency_key_reused', 'This Idempotency-Key was already used for another request.')
    return { json: found.body, status: found.status, replayed: true }
  }
  const work = await handler.write(call).catch((cause: unknown) => {
    if (!claim) throw cause
    // If the handler fails, look for a stored response first: an earlier request with this idempotency key may have
    // deleted the resource.
    return () => {
      throw cause
    }
  })
  const noted = notes.length
  const once = async (tx: Tx): Promise<Written> => {
    notes.length = noted
    const before = await stored(tx)
    if (before) return before
    await precondition?.check(tx)
    const answer = await work(tx)
    if (notes.length === 0 && route.operation.auth === 'bearer' && !route.operation.unaudited)
      throw new Error(`BUG: ${route.id} changed something without an audit note`)
    if (notes.length > 0)
      options.audit.write(
        tx,
        notes.map(note => entryOf(note, route, request)),
      )
    const json = String(route.json(answer, reply))
    if (claim) options.idempotency.complete(tx, claim, 200, json)
    return { json, status: 200, replayed: false }
  }
  // From here on, the request holds one of the few connections for transactions.
  using _place = await admission.place(request, reply)
  return await retryAborted(() => options.deps.db.tx(once))
}

const mostTries = 3

/**
 * Retries a transaction that PostgreSQL aborted because of a deadlock or a serialization failure: all its writes are
 * rolled back. Effects that must not happen twice belong before the transaction or into it (see `Handler`).
 */
async function retryAborted<T>(transaction: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++)
    try {
      return await transaction()
    } catch (error) {
      if (tries === mostTries || !retryable(error)) throw error
    }
}

function entryOf({ actor, ...note }: RecordedNote, route: Route, request: FastifyRequest): AuditEntry {
  const { caller, project } = stateOf(request)
  const userId = actor?.userId ?? caller?.userId
  if (userId === undefined) throw new Error(`BUG: the audit note of ${route.id} names nobody`)
  return {
    ...note,
    userId,
    projectId: actor?.projectId ?? project?.id,
    via: caller?.via,
    origin: originOf(request),
    operation: route.id,
  }
}

/**
 * Returns whether the server stores the response for an `Idempotency-Key`. PUT and GET may be repeated without a key.
 */
export const takesKey = ({ method, auth }: Operation) =>
  auth === 'bearer' && (method === 'POST' || method === 'PATCH' || method === 'DELETE')

/**
 * Returns the idempotency key of a request; undefined without an authenticated caller, because then anyone with the key
 * could read the response.
 */
function claimOf(route: Route, request: FastifyRequest, call: Call<never>): IdempotencyClaim | undefined {
  const header = request.headers['idempotency-key']
  const { caller, project } = stateOf(request)
  if (header === undefined || !takesKey(route.operation) || !caller) return undefined
  // draft-ietf-httpapi-idempotency-key-header-07 uses a quoted string, but most clients send the key without quotes.
  const key = String(header).replace(/^"(.*)"$/, '$1')
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw invalidField('Idempotency-Key', 'must have 1 to 255 printable characters')
  const hash = createHash('sha256')
  const [path] = request.url.split('?')
  hash.update(JSON.stringify([route.id, path, project?.id, call.query, call.body]))
  return { userId: caller.userId, key, fingerprint: hash.digest('hex') }
}
