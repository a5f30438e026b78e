/**
 * Who may go on, decided before a byte of the body is read: address, credential, scope, role, project, allowance. In
 * this order a caller without rights learns nothing, not even whether his body would have been valid.
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
/** The most a member may do in a project, whatever the token allows. */
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
    /** Programs of a few addresses that speak for many: webhooks, storage nodes. */
    machine: { name: 'machine', quota: limits.tenantPerMinute, windowSeconds: 60 },
    tenant: { name: 'tenant', quota: limits.tenantPerMinute, windowSeconds: 60 },
    login: { name: 'login', quota: limits.loginPerMinute, windowSeconds: 60 },
    /** Ten seconds' worth at once, so that a script may create a handful without waiting. */
    create: { name: 'create', quota: limits.createsPerSecond * 10, windowSeconds: 10 },
  }) as const satisfies Record<string, RatePolicy>

/** What is asked for, and how it begins before it is known who asks. */
interface Admitted {
  readonly operation: Operation
  readonly beginRead?: BeginRead | undefined
}

export interface Admission {
  /** Fills `state.caller`, `state.project` and `state.attempt`, or throws what the client is told. */
  admit(request: FastifyRequest, reply: FastifyReply, route: Admitted | undefined): Promise<void>
  /** For `login` operations, once the body is known. */
  countLogin(request: FastifyRequest, reply: FastifyReply, email: string): Promise<void>
  /** False once the credential or the membership behind an open stream is gone. */
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
  /** Reads that began before it was known who asks, and still is not. */
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

  /** Failures draw on the address's allowance, so that guessing is slow while valid callers behind it are not touched. */
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

  /** Whether it would be let through if this were who asks; nothing is counted yet. */
  function wouldAdmit(who: CallerInProject, operation: Operation): boolean {
    if (!hasScope(who.caller, operation) || !isAdminEnough(who.caller, operation)) return false
    if (operation.project !== 'none' && !(who.project && hasRole(who.project, operation))) return false
    // Those under way will be counted before this one, if they are of the same tenant.
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
      // What was begun for anybody else is dropped, whatever comes of it.
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
        // An outage is no reason to cut a stream that was allowed a moment ago.
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
    throw forbidden(`This token is not allowed to do that; it needs the scope "${operation.scope}".`)
  if (!isAdminEnough(caller, operation)) throw forbidden('Only administrators of the installation may do that.')
}

function requireRole(project: ProjectAccess, operation: Operation): void {
  if (!hasRole(project, operation)) throw forbidden(`As ${project.memberRole} of this project you may not do that.`)
}

/** Whose allowance it draws on. */
const tenantOf = ({ caller, project }: CallerInProject) => (project ? `project:${project.id}` : `user:${caller.userId}`)

/** Undefined: none was given. Null: one that no project can have, or two. */
function selectorOf(request: FastifyRequest, operation: Operation): string | undefined | null {
  const selector = operation.project === 'path' ? memberOf(request.params, 'tenant_slug') : namedProject(request)
  if (selector === undefined) return undefined
  return typeof selector === 'string' && selector.length <= 200 && isStorable(selector) ? selector : null
}

/** Requests of one credential that name the same here draw on the same allowance. */
const copyTimeoutOf = (request: FastifyRequest, operation: Operation) =>
  operation.project === 'none' ? 'own' : `project ${selectorOf(request, operation) ?? ''}`

function namedProject(request: FastifyRequest): unknown {
  const header = request.headers['x-project']
  return header === undefined || header === '' ? memberOf(request.query, 'project') : header
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
