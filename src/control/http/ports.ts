/** What the frame needs from the features, as interfaces: it knows HTTP, they know the database. */
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
 * Told whom the credential belonged to the last time it was asked about, in the same turn of the event loop in which it is
 * asked about again. Only where the answer then is this very caller in this very project (the same objects) does that still
 * hold. Must not throw.
 */
export type Presume = (who: CallerInProject) => void

export interface Security {
  /**
   * @param credential what follows `Bearer `: a session JWT or a PAT
   * @throws ApiError `unauthenticated`
   */
  authenticate(credential: string, origin: Origin, presume?: Presume): Promise<Caller>
  /**
   * Both questions at once, since one query can answer them and every request to a project asks them.
   * @param selector slug or uuid from the path, `X-Project` or `?project=`; undefined: the token's or the default project
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
  /** Undefined for an unknown project and a foreign one alike. */
  readonly project: ProjectAccess | undefined
}

/** One row of the audit log. */
export interface AuditEntry extends AuditNote {
  readonly userId: string
  readonly projectId: string | undefined
  /** The session or token that was used; undefined where the actor had none yet (register, login). */
  readonly via: Caller['via'] | undefined
  readonly origin: Origin
  readonly operation: string
}

export interface AuditWriter {
  /** Writes all of them in the given transaction, at its end. */
  write(tx: Tx, entries: readonly AuditEntry[]): void
}

export interface IdempotencyClaim {
  readonly userId: string
  /** What the client sent, 1 to 255 characters. */
  readonly key: string
  /** SHA-256 of operation, path, project and body, hex. */
  readonly fingerprint: string
}

export interface StoredAnswer {
  readonly fingerprint: string
  readonly status: number
  /** JSON text. May hold a secret that is shown once, so it is stored sealed. */
  readonly body: string
}

/** Answers are kept for 24 hours by (user, key). */
export interface IdempotencyStore {
  /**
   * The first statement of the transaction: inserts the key, and so waits for another transaction that holds the same
   * one. Resolves with undefined when the key is new (or expired), else with what the first request was answered.
   */
  claim(tx: Tx, claim: IdempotencyClaim): Promise<StoredAnswer | undefined>
  /** Written at the end of the transaction. */
  complete(tx: Tx, claim: IdempotencyClaim, status: number, body: string): void
}

export interface RequestObservation {
  /** Operation id, or `unknown` for a path that is none. */
  readonly operation: string
  readonly method: string
  readonly status: number
  readonly seconds: number
  readonly stream: boolean
}

/** A request of a known caller that a handler refused. */
export interface Refusal {
  readonly error: ApiError
  readonly userId: string
  readonly projectId: string | undefined
}

/** Pages for people beside the API; they need no credential and draw on no allowance. */
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
  /** Every operation to register, by its id; those of `features` are added. Each needs a handler. */
  readonly operations: Readonly<Record<string, Operation>>
  readonly streamLimits?: Partial<StreamLimits>
  /** Told before the answer is sent, outside the transaction of the request. Must not throw. */
  readonly onRefusal?: (refusal: Refusal) => Promise<void>
  readonly pages?: readonly Pages[]
  readonly observe?: (observation: RequestObservation) => void
  /** Checks every JSON answer against its schema and fails with 500 on a difference. For tests: it costs as much again. */
  readonly checkAnswers?: boolean
}

/** The part of `Deps` that the frame itself uses. */
export type FrameDeps = Pick<Deps, 'db' | 'log' | 'clock'> & {
  readonly config: Pick<Deps['config'], 'trustedProxies' | 'corsOrigins' | 'rateLimits' | 'streamsPerUser'>
}

/** An operation with its id, and what a request has learnt so far. */
export interface RouteInfo {
  readonly id: string
  readonly operation: Operation
}

export interface RequestState {
  readonly ip: string
  readonly traceparent: string
  caller: Caller | undefined
  project: ProjectAccess | undefined
  /** What was begun for this caller in this project before he was known. */
  attempt: Attempt | undefined
}

/** A read that has begun although nobody knows yet whether who asks is still whom he was (attempt.ts). */
export interface Attempt {
  readonly who: CallerInProject
  /** Of the handler. Never an unhandled rejection. */
  readonly answer: Promise<unknown>
  /** `Set-Cookie` lines of the handler. */
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

/** @throws Error when the first hook has not run, which cannot be. */
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
