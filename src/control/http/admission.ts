/**
 * Decides whether a request is allowed, before any byte of its body is read. The checks run in this order: address,
 * credential, scope, role, project, rate limit. A caller without rights therefore learns nothing, not even whether the
 * body was valid.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import type { BeginRead } from './attempt.ts'
import { requestsFor } from './body-limit.ts'
import { ApiError, forbidden, notFound, unauthenticated } from './errors.ts'
import { isStorable } from './json-body.ts'
import { createDelayedRefusals } from './delayed-refusals.ts'
import type { Caller, MemberRole, Operation, ProjectAccess, Scope } from './operation.ts'
import { type CallerInProject, originOf, type Presume, type Security, type ServerOptions, stateOf } from './ports.ts'
import { addressKey, type RateLimiter, type RatePolicy, rateHeaders } from './rate-limit.ts'
import { createThrottledCredentials, throttledId } from './throttled-credentials.ts'

const scopeRank: Readonly<Record<Scope, number>> = { read: 0, deploy: 1, write: 2, admin: 3 }
/** The highest scope of each role in a project, whatever the scopes of the token. */
const roleScope = { viewer: 'read', member: 'write', admin: 'admin', owner: 'admin' } as const satisfies Record<
  MemberRole,
  Scope
>

/** A scope includes those below it: read < deploy < write < admin. */
export const scopesAllow = (scopes: ReadonlySet<Scope>, needed: Scope) =>
  [...scopes].some(scope => scopeRank[scope] >= scopeRank[needed])

export type RateLimits = ServerOptions['deps']['config']['rateLimits']

const policies = (limits: RateLimits) =>
  ({
    anonymous: { name: 'anonymous', quota: limits.anonymousPerMinute, windowSeconds: 60 },
    /** Programs that act for many tenants from a few addresses: webhooks, storage nodes. */
    machine: { name: 'machine', quota: limits.tenantPerMinute, windowSeconds: 60 },
    tenant: { name: 'tenant', quota: limits.tenantPerMinute, windowSeconds: 60 },
    login: { name: 'login', quota: limits.loginPerMinute, windowSeconds: 60 },
    /** Ten seconds' worth at once, so that a script can create a handful of resources without waiting. */
    create: { name: 'create', quota: limits.createsPerSecond * 10, windowSeconds: 10 },
  }) as const satisfies Record<string, RatePolicy>

/** The operation of a request, and the function that starts its read before authentication is confirmed. */
interface Admitted {
  readonly operation: Operation
  readonly beginRead?: BeginRead | undefined
}

export interface Admission {
  /** Fills `state.caller`, `state.project` and `state.attempt`, or throws the error for the client. */
  admit(request: FastifyRequest, reply: FastifyReply, route: Admitted | undefined): Promise<void>
  /** Counts a sign-in. Called by `login` operations once the body is parsed. */
  countLogin(request: FastifyRequest, reply: FastifyReply, email: string): Promise<void>
  /** False once the credential or the membership behind an open stream has been revoked. */
  stillAllowed(request: FastifyRequest, operation: Operation): Promise<boolean>
}

export function createAdmission(options: {
  security: Security
  rateLimiter: RateLimiter
  limits: RateLimits
  clock: Clock
}): Admission {
  const { security, rateLimiter } = options
  const policy = policies(options.limits)
  const throttled = createThrottledCredentials(options.clock)
  const delayedRefusals = createDelayedRefusals(options.clock, { delayMs: options.limits.refusalDelayMs })
  /** Speculative reads that are not authenticated yet. */
  let attempts = 0

  async function refuse(reply: FastifyReply, key: string, waitSeconds: number): Promise<never> {
    await delayedRefusals.wait(key, reply)
    throw tooMany(waitSeconds)
  }

  async function count(reply: FastifyReply, which: RatePolicy, key: string, requests = 1): Promise<void> {
    const verdict = rateLimiter.take(which, key, requests)
    reply.headers(rateHeaders(which, verdict))
    if (!verdict.allowed) await refuse(reply, `${which.name}:${key}`, verdict.waitSeconds)
  }

  /** Counts a request of a tenant; once refused, its credential rests. */
  async function countTenant(reply: FastifyReply, key: string, requests: number, rest: () => string): Promise<void> {
    const verdict = rateLimiter.take(policy.tenant, key, requests)
    reply.headers(rateHeaders(policy.tenant, verdict))
    if (verdict.allowed) return
    throttled.add(rest(), verdict.waitSeconds)
    await refuse(reply, key, verdict.waitSeconds)
  }

  async function refuseThrottled(reply: FastifyReply, rest: string): Promise<void> {
    const waitSeconds = throttled.secondsLeft(rest)
    if (waitSeconds === undefined) return
    reply.headers(rateHeaders(policy.tenant, { allowed: false, remaining: 0, waitSeconds }))
    await refuse(reply, rest, waitSeconds)
  }

  async function identify(request: FastifyRequest, operation: Operation, presume?: Presume): Promise<CallerInProject> {
    const credential = credentialOf(request)
    const selector = operation.project === 'none' ? null : selectorOf(request, operation)
    if (selector !== null) return security.authenticateInProject(credential, selector, originOf(request), presume)
    return { caller: await security.authenticate(credential, originOf(request), presume), project: undefined }
  }

  /**
   * Failures count against the address's rate limit, so guessing is slow while valid callers behind the same address
   * are not affected.
   */
  async function enter(request: FastifyRequest, reply: FastifyReply, route: Admitted): Promise<CallerInProject> {
    const state = stateOf(request)
    try {
      return await identify(request, route.operation, presumed => {
        if (!route.beginRead || !wouldAdmit(presumed, route.operation)) return
        attempts++
        state.attempt = route.beginRead(request, reply, presumed)
      })
    } catch (error) {
      await count(reply, policy.anonymous, addressKey(state.ip))
      throw error
    } finally {
      if (state.attempt) attempts--
    }
  }

  /** Whether the presumed caller would be admitted. Nothing is counted yet. */
  function wouldAdmit(who: CallerInProject, operation: Operation): boolean {
    if (!hasScope(who.caller, operation) || !isAdminEnough(who.caller, operation)) return false
    if (operation.project !== 'none' && !(who.project && hasRole(who.project, operation))) return false
    // Pending attempts of the same tenant will be counted before this one.
    return operation.throttle === 'unlimited' || rateLimiter.left(policy.tenant, tenantOf(who)) > attempts
  }

  return {
    async admit(request, reply, route) {
      const state = stateOf(request)
      const limited = route?.operation.throttle !== 'unlimited'
      const requests = requestsFor(request.headers, route?.operation)
      if (route?.operation.auth !== 'bearer') {
        const which = route?.operation.throttle === 'machine' ? policy.machine : policy.anonymous
        if (limited) await count(reply, which, addressKey(state.ip), requests)
        return
      }
      const { operation } = route
      const rest = () => throttledId(request.headers.authorization ?? '', copyTimeoutOf(request, operation))
      if (limited && throttled.anybody()) await refuseThrottled(reply, rest())
      const { caller, project } = await enter(request, reply, route)
      const { attempt } = state
      // A speculative read that ran for a different caller or project is discarded.
      if (attempt && (attempt.who.caller !== caller || attempt.who.project !== project)) state.attempt = undefined
      state.caller = caller
      requireScope(caller, operation)
      if (operation.project !== 'none') {
        if (!project) {
          await count(reply, policy.tenant, `user:${caller.userId}`)
          throw notFound()
        }
        requireRole(project, operation)
        state.project = project
      }
      const tenant = tenantOf({ caller, project: state.project })
      if (limited) await countTenant(reply, tenant, requests, rest)
      if (operation.throttle === 'create') await count(reply, policy.create, tenant)
    },
    countLogin: (request, reply, email) =>
      count(reply, policy.login, `${addressKey(stateOf(request).ip)} ${email.toLowerCase()}`),
    async stillAllowed(request, operation) {
      if (operation.auth === 'none') return true
      try {
        const { project } = await identify(request, operation)
        return operation.project === 'none' || project !== undefined
      } catch (error) {
        // Do not close an authorized stream because of an outage.
        return !(error instanceof ApiError && error.status < 500)
      }
    },
  }
}

const tooMany = (waitSeconds: number) =>
  new ApiError('rate_limited', `Too many requests. Try again in ${waitSeconds} s.`, { retryAfterSeconds: waitSeconds })

function credentialOf(request: FastifyRequest): string {
  const found = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(request.headers.authorization ?? '')
  if (!found?.[1]) throw unauthenticated()
  return found[1]
}

const hasScope = (caller: Caller, operation: Operation) => scopesAllow(caller.scopes, operation.scope)
const isAdminEnough = (caller: Caller, operation: Operation) => !operation.adminOnly || caller.role === 'Admin'
const hasRole = (project: ProjectAccess, operation: Operation) =>
  scopeRank[roleScope[project.memberRole]] >= scopeRank[operation.scope]

function requireScope(caller: Caller, operation: Operation): void {
  if (!hasScope(caller, operation))
    throw forbidden(`This token does not allow that; it needs the scope "${operation.scope}".`)
  if (!isAdminEnough(caller, operation)) throw forbidden('Only administrators of the installation may do that.')
}

function requireRole(project: ProjectAccess, operation: Operation): void {
  if (!hasRole(project, operation))
    throw forbidden(`Your role in this project (${project.memberRole}) does not allow that.`)
}

/** Key of the rate limit that the request counts against. */
const tenantOf = ({ caller, project }: CallerInProject) => (project ? `project:${project.id}` : `user:${caller.userId}`)

/** Undefined if no project is selected; null if the selector is invalid or given twice. */
function selectorOf(request: FastifyRequest, operation: Operation): string | undefined | null {
  const selector = operation.project === 'path' ? memberOf(request.params, 'tenant_slug') : namedProject(request)
  if (selector === undefined) return undefined
  return typeof selector === 'string' && selector.length <= 200 && isStorable(selector) ? selector : null
}

/** Requests of one credential with the same key share a throttled state. */
const copyTimeoutOf = (request: FastifyRequest, operation: Operation) =>
  operation.project === 'none' ? 'own' : `project ${selectorOf(request, operation) ?? ''}`

function namedProject(request: FastifyRequest): unknown {
  const header = request.headers['x-project']
  return header === undefined || header === '' ? memberOf(request.query, 'project') : header
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
