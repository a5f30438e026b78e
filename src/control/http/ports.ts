/** Interfaces that features implement for the HTTP layer, which does not access the database itself. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import type { BeginRead } from './attempt.ts'
import type { ApiError } from './errors.ts'
import type { AuditNote, Caller, Feature, Operation, ProjectAccess } from './operation.ts'
import type { RateLimiter } from './rate-limit.ts'
import type { StreamLimits } from './sse.ts'

export interface Origin {
  readonly ip: string
  readonly userAgent: string
  readonly requestId: string
}

/**
 * Called with the last known owner of the credential, in the same tick in which the authentication query is sent. The
 * presumption holds only if authentication returns the same caller and project objects. Must not throw.
 */
export type Presume = (who: CallerInProject) => void

export interface Security {
  /**
   * Resolves a credential to its caller.
   * @param credential what follows `Bearer `: a session JWT or a PAT
   * @throws ApiError `unauthenticated`
   */
  authenticate(credential: string, origin: Origin, presume?: Presume): Promise<Caller>
  /**
   * Authenticates and looks up the project in one query, because every request to a project needs both.
   * @param selector slug or uuid from the path, `X-Project` or `?project=`; undefined: the token's or the default
   * project
   * @throws ApiError `unauthenticated`
   */
  authenticateInProject(
    credential: string,
    selector: string | undefined,
    origin: Origin,
    presume?: Presume,
  ): Promise<CallerInProject>
}

export interface CallerInProject {
  readonly caller: Caller
  /** The selected project; undefined if it does not exist or belongs to another tenant. */
  readonly project: ProjectAccess | undefined
}

/** One row of the audit log. */
export interface AuditEntry extends AuditNote {
  readonly userId: string
  readonly projectId: string | undefined
  /** The session or token of the request; undefined if the user had neither yet (register, login). */
  readonly via: Caller['via'] | undefined
  readonly origin: Origin
  readonly operation: string
}

export interface AuditWriter {
  /** Writes all entries at the end of the given transaction. */
  write(tx: Tx, entries: readonly AuditEntry[]): void
}

export interface IdempotencyClaim {
  readonly userId: string
  /** Value of the `Idempotency-Key` header, 1 to 255 characters. */
  readonly key: string
  /** Fingerprint of the request: SHA-256 of operation, path, project and body, hex. */
  readonly fingerprint: string
}

export interface StoredAnswer {
  readonly fingerprint: string
  readonly status: number
  /**
   * Body of the stored response as JSON text. It may contain a secret that is shown only once, so it is stored
   * encrypted.
   */
  readonly body: string
}

/** Stores responses for 24 hours, by user and idempotency key. */
export interface IdempotencyStore {
  /**
   * The first statement of the transaction: inserts the key, which blocks while another transaction holds the same key.
   * Resolves with undefined if the key is new or expired, else with the stored response to the first request.
   */
  claim(tx: Tx, claim: IdempotencyClaim): Promise<StoredAnswer | undefined>
  /** Stores the response with the claim at the end of the transaction, for repetitions of the request. */
  complete(tx: Tx, claim: IdempotencyClaim, status: number, body: string): void
}

export interface RequestObservation {
  /** Id of the operation; `unknown` if no operation matches the path. */
  readonly operation: string
  readonly method: string
  readonly status: number
  readonly seconds: number
  readonly stream: boolean
}

/** An error that the handler of an operation returned to an authenticated caller. */
export interface Refusal {
  readonly error: ApiError
  readonly userId: string
  readonly projectId: string | undefined
}

/** HTML pages besides the API. They need no credential and count against no rate limit. */
export interface Pages {
  serves(request: FastifyRequest): boolean
  register(app: FastifyInstance): void
}

export interface ServerOptions {
  readonly features: readonly Feature[]
  readonly deps: FrameDeps
  readonly security: Security
  readonly audit: AuditWriter
  readonly idempotency: IdempotencyStore
  readonly rateLimiter: RateLimiter
  /** All operations to register, by id, in addition to those of `features`. Each needs a handler. */
  readonly operations: Readonly<Record<string, Operation>>
  readonly streamLimits?: Partial<StreamLimits>
  /**
   * Called when a handler refuses a request, before the response is sent and outside the request's transaction. Must
   * not throw.
   */
  readonly onRefusal?: (refusal: Refusal) => Promise<void>
  readonly pages?: readonly Pages[]
  readonly observe?: (observation: RequestObservation) => void
  /**
   * Validates every JSON response against its schema; a response that does not match becomes a 500. Only for tests: it
   * doubles the cost of a response.
   */
  readonly checkAnswers?: boolean
}

/** The members of `Deps` that the HTTP layer uses. */
export type FrameDeps = Pick<Deps, 'db' | 'log' | 'clock'> & {
  readonly config: Pick<Deps['config'], 'trustedProxies' | 'corsOrigins' | 'rateLimits' | 'streamsPerUser'>
}

/** An operation with its id. */
export interface RouteInfo {
  readonly id: string
  readonly operation: Operation
}

export interface RequestState {
  readonly ip: string
  readonly traceparent: string
  caller: Caller | undefined
  project: ProjectAccess | undefined
  /** The speculative read of this request, if one was started. */
  attempt: Attempt | undefined
}

/** A speculative read, started before authentication is confirmed (attempt.ts). */
export interface Attempt {
  readonly who: CallerInProject
  /** The handler's result. A handler for its rejection is always attached. */
  readonly answer: Promise<unknown>
  /** `Set-Cookie` lines that the handler has set. */
  readonly cookies: readonly string[]
}

declare module 'fastify' {
  interface FastifyContextConfig {
    mote?: RouteInfo & { readonly beginRead?: BeginRead | undefined }
  }
  interface FastifyRequest {
    state: RequestState | null
  }
}

/** Returns the state that the first hook has set. @throws Error if that hook has not run, which is a bug. */
export function stateOf(request: FastifyRequest): RequestState {
  if (!request.state) throw new Error('BUG: a request without state')
  return request.state
}

export function originOf(request: FastifyRequest): Origin {
  return {
    ip: stateOf(request).ip,
    userAgent: (request.headers['user-agent'] ?? '').slice(0, 256),
    requestId: request.id,
  }
}
