/**
 * Decides whether a request is allowed, before any byte of its body is read. The checks run in this order: credential,
 * scope, project, role, rate limit of the tenant. A caller without rights therefore learns nothing, not even whether
 * the body was valid. The rate limit of the IP address applies to requests that need no credential, and to wrong
 * credentials.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import type { BeginRead } from './attempt.ts'
import { bytesPerRequest, requestsFor } from './body-limit.ts'
import { ApiError, forbidden, notFound, unauthenticated } from './errors.ts'
import { isStorable } from './json-body.ts'
import type { Caller, Operation, ProjectAccess } from './operation.ts'
import { type CallerInProject, originOf, type Presume, type Security, stateOf } from './ports.ts'
import { addressKey, type RateLimiter } from './rate-limit.ts'
import {
  count,
  countTenant,
  type RateLimits,
  refuseThrottled,
  type RequestLimits,
  requestLimits,
} from './request-limits.ts'
import { signalOf } from './route.ts'
import { roleAllows, scopesAllow } from './scopes.ts'
import { createShares, noPlace, type Place, type Shares } from './shares.ts'
import { throttledId } from './throttled-credentials.ts'

/** The operation of a request, and the function that starts the operation's read before authentication is confirmed. */
interface Admitted {
  readonly operation: Operation
  readonly beginRead?: BeginRead | undefined
}

export interface Admission {
  /** Fills `state.caller`, `state.project` and `state.attempt`. @throws ApiError for a request that is refused */
  admit(request: FastifyRequest, reply: FastifyReply, route: Admitted | undefined): Promise<void>
  /** Counts a sign-in. Called by `login` operations once the body is parsed. */
  countLogin(request: FastifyRequest, reply: FastifyReply, email: string): Promise<void>
  /**
   * Waits until fewer requests of the tenant run than its maximum (shares.ts), and returns the slot of this request,
   * which counts as running until the slot is released. A request without a credential does not wait.
   * @throws Error when the client disconnects
   */
  place(request: FastifyRequest, reply: FastifyReply): Promise<Place>
  /** Counts a large response as one more request for each full 64 KiB, which delays the tenant's next requests. */
  countAnswer(request: FastifyRequest, bytes: number): void
  /** Returns false once the credential or the project membership of an open stream has been revoked. */
  stillAllowed(request: FastifyRequest, operation: Operation): Promise<boolean>
}

interface Checks {
  readonly security: Security
  readonly limits: RequestLimits
  readonly shares: Shares
  /** Number of speculative reads that are not authenticated yet. */
  attempts: number
}

/**
 * Maximum number of concurrent requests of one tenant. A higher limit would not give a tenant more responses per
 * second, since four connections to PostgreSQL already keep the event loop busy.
 */
const mostAtOnce = 4

export function createAdmission(options: {
  security: Security
  rateLimiter: RateLimiter
  limits: RateLimits
  clock: Clock
}): Admission {
  const { security } = options
  const limits = requestLimits(options.rateLimiter, options.limits, options.clock)
  const shares = createShares(mostAtOnce)
  const checks: Checks = { security, limits, shares, attempts: 0 }
  return {
    admit: (request, reply, route) =>
      route?.operation.auth === 'bearer'
        ? admitCaller(checks, request, reply, route)
        : admitAnonymous(checks, request, reply, route),
    countLogin: (request, reply, email) =>
      count(limits, reply, limits.policy.login, `${addressKey(stateOf(request).ip)} ${email.toLowerCase()}`),
    async place(request, reply) {
      const { caller, project } = stateOf(request)
      return caller ? shares.take(tenantOf({ caller, project }), () => signalOf(reply)) : noPlace
    },
    countAnswer(request, bytes) {
      const { caller, project } = stateOf(request)
      const more = Math.floor(bytes / bytesPerRequest)
      if (caller && more > 0) limits.rateLimiter.charge(limits.policy.tenant, tenantOf({ caller, project }), more)
    },
    async stillAllowed(request, operation) {
      if (operation.auth === 'none') return true
      try {
        const { project } = await identify(security, request, operation)
        return operation.project === 'none' || project !== undefined
      } catch (error) {
        // Do not close an authorized stream because PostgreSQL is unavailable.
        return !(error instanceof ApiError && error.status < 500)
      }
    },
  }
}

async function admitAnonymous(
  { limits }: Checks,
  request: FastifyRequest,
  reply: FastifyReply,
  route: Admitted | undefined,
): Promise<void> {
  if (route?.operation.throttle === 'unlimited') return
  const which = route?.operation.throttle === 'machine' ? limits.policy.machine : limits.policy.anonymous
  const requests = requestsFor(request.headers, route?.operation)
  await count(limits, reply, which, addressKey(stateOf(request).ip), requests)
}

async function admitCaller(
  checks: Checks,
  request: FastifyRequest,
  reply: FastifyReply,
  route: Admitted,
): Promise<void> {
  const { limits } = checks
  const { operation } = route
  const state = stateOf(request)
  const limited = operation.throttle !== 'unlimited'
  const requests = requestsFor(request.headers, operation)
  const throttledKey = () => throttledId(request.headers.authorization ?? '', throttleScopeOf(request, operation))
  if (limited && limits.throttled.anybody()) await refuseThrottled(limits, reply, throttledKey())
  const { caller, project } = await authenticate(checks, request, reply, route)
  const { attempt } = state
  // A speculative read that ran for a different caller or project is discarded.
  if (attempt && (attempt.who.caller !== caller || attempt.who.project !== project)) state.attempt = undefined
  state.caller = caller
  requireScope(caller, operation)
  if (operation.project !== 'none') {
    if (!project) {
      await count(limits, reply, limits.policy.tenant, `user:${caller.userId}`)
      throw notFound()
    }
    requireRole(project, operation)
    state.project = project
  }
  const key = tenantOf({ caller, project: state.project })
  if (limited) await countTenant(limits, reply, { key, requests, throttledKey })
  if (operation.throttle === 'create') await count(limits, reply, limits.policy.create, key)
}

async function identify(
  security: Security,
  request: FastifyRequest,
  operation: Operation,
  presume?: Presume,
): Promise<CallerInProject> {
  const credential = credentialOf(request)
  const selector = operation.project === 'none' ? null : selectorOf(request, operation)
  if (selector !== null) return security.authenticateInProject(credential, selector, originOf(request), presume)
  return { caller: await security.authenticate(credential, originOf(request), presume), project: undefined }
}

/**
 * Authenticates the request. Failures count toward the rate limit of the IP address, so guessing is slow, while valid
 * callers behind the same IP address are not affected.
 */
async function authenticate(
  checks: Checks,
  request: FastifyRequest,
  reply: FastifyReply,
  route: Admitted,
): Promise<CallerInProject> {
  const { limits } = checks
  const state = stateOf(request)
  try {
    return await identify(checks.security, request, route.operation, presumed => {
      if (!route.beginRead || !wouldAdmit(checks, presumed, route.operation)) return
      const place = checks.shares.tryTake(tenantOf(presumed))
      // If the tenant's maximum number of requests (shares.ts) is running, there is no speculative read. The read then
      // begins once one of those requests has ended.
      if (!place) return
      checks.attempts++
      state.attempt = route.beginRead(request, reply, presumed)
      state.attempt.answer.finally(place.release).catch(() => undefined)
    })
  } catch (error) {
    await count(limits, reply, limits.policy.anonymous, addressKey(state.ip))
    throw error
  } finally {
    if (state.attempt) checks.attempts--
  }
}

/** Returns whether permissions and rate limit would admit the presumed caller. Does not count the request yet. */
function wouldAdmit({ attempts, limits }: Checks, who: CallerInProject, operation: Operation): boolean {
  if (!hasScope(who.caller, operation) || !isAdminEnough(who.caller, operation)) return false
  if (operation.project !== 'none' && !(who.project && hasRole(who.project, operation))) return false
  // Subtract the pending speculative reads: their requests will be counted before this one.
  return operation.throttle === 'unlimited' || limits.rateLimiter.left(limits.policy.tenant, tenantOf(who)) > attempts
}

function credentialOf(request: FastifyRequest): string {
  const found = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(request.headers.authorization ?? '')
  if (!found?.[1]) throw unauthenticated()
  return found[1]
}

const hasScope = (caller: Caller, operation: Operation) => scopesAllow(caller.scopes, operation.scope)
const isAdminEnough = (caller: Caller, operation: Operation) => !operation.adminOnly || caller.role === 'Admin'
const hasRole = (project: ProjectAccess, operation: Operation) => roleAllows(project.memberRole, operation.scope)

function requireScope(caller: Caller, operation: Operation): void {
  if (!hasScope(caller, operation))
    throw forbidden(`This token does not allow that; it needs the scope "${operation.scope}".`)
  if (!isAdminEnough(caller, operation)) throw forbidden('Only administrators of the installation may do that.')
}

function requireRole(project: ProjectAccess, operation: Operation): void {
  if (!hasRole(project, operation))
    throw forbidden(`Your role in this project (${project.memberRole}) does not allow that.`)
}

/** Returns the key of the rate limit that the request counts against. */
const tenantOf = ({ caller, project }: CallerInProject) => (project ? `project:${project.id}` : `user:${caller.userId}`)

/** Returns the selector of the project: undefined if the request has none; null if it is invalid or given twice. */
function selectorOf(request: FastifyRequest, operation: Operation): string | undefined | null {
  const selector = operation.project === 'path' ? memberOf(request.params, 'tenant_slug') : namedProject(request)
  if (selector === undefined) return undefined
  return typeof selector === 'string' && selector.length <= 200 && isStorable(selector) ? selector : null
}

/**
 * Returns the part of a throttled credential's key that names the project: the credential is refused only for the same
 * project.
 */
const throttleScopeOf = (request: FastifyRequest, operation: Operation) =>
  operation.project === 'none' ? 'own' : `project ${selectorOf(request, operation) ?? ''}`

function namedProject(request: FastifyRequest): unknown {
  const header = request.headers['x-project']
  return header === undefined || header === '' ? memberOf(request.query, 'project') : header
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
