/** Counts requests against the rate limits, and delays the refusals. */
import type { FastifyReply } from 'fastify'
import type { Clock } from '../../lib/clock.ts'
import { createDelayedRefusals } from './delayed-refusals.ts'
import { ApiError } from './errors.ts'
import type { ServerOptions } from './ports.ts'
import { type RateLimiter, type RatePolicy, rateHeaders } from './rate-limit.ts'
import { createThrottledCredentials } from './throttled-credentials.ts'

export type RateLimits = ServerOptions['deps']['config']['rateLimits']

const policies = (limits: RateLimits) =>
  ({
    anonymous: { name: 'anonymous', quota: limits.anonymousPerMinute, windowSeconds: 60 },
    /** Policy for programs that act for many tenants from a few IP addresses: webhooks, storage nodes. */
    machine: { name: 'machine', quota: limits.tenantPerMinute, windowSeconds: 60 },
    tenant: { name: 'tenant', quota: limits.tenantPerMinute, windowSeconds: 60 },
    login: { name: 'login', quota: limits.loginPerMinute, windowSeconds: 60 },
    /**
     * Policy for creations. The quota of ten seconds may be used at once, so that a script can create some resources
     * without waiting.
     */
    create: { name: 'create', quota: limits.createsPerSecond * 10, windowSeconds: 10 },
  }) as const satisfies Record<string, RatePolicy>

export interface RequestLimits {
  readonly rateLimiter: RateLimiter
  readonly policy: ReturnType<typeof policies>
  readonly throttled: ReturnType<typeof createThrottledCredentials>
  readonly delayedRefusals: ReturnType<typeof createDelayedRefusals>
}

export const requestLimits = (rateLimiter: RateLimiter, limits: RateLimits, clock: Clock): RequestLimits => ({
  rateLimiter,
  policy: policies(limits),
  throttled: createThrottledCredentials(clock),
  delayedRefusals: createDelayedRefusals(clock, { delayMs: limits.refusalDelayMs }),
})

/** Counts requests against a policy. @throws ApiError 429 */
export async function count(
  limits: RequestLimits,
  reply: FastifyReply,
  which: RatePolicy,
  key: string,
  requests = 1,
): Promise<void> {
  const verdict = limits.rateLimiter.take(which, key, requests)
  reply.headers(rateHeaders(which, verdict))
  if (!verdict.allowed) await refuse(limits, reply, `${which.name}:${key}`, verdict.waitSeconds)
}

interface TenantRequest {
  /** Key of the rate limit of the request's tenant. */
  readonly key: string
  readonly requests: number
  /** Returns the key under which the credential is throttled. */
  readonly throttledKey: () => string
}

/**
 * Counts a request of a tenant. If the request exceeds the limit, also throttles its credential.
 * @throws ApiError 429
 */
export async function countTenant(
  limits: RequestLimits,
  reply: FastifyReply,
  { key, requests, throttledKey }: TenantRequest,
): Promise<void> {
  const verdict = limits.rateLimiter.take(limits.policy.tenant, key, requests)
  reply.headers(rateHeaders(limits.policy.tenant, verdict))
  if (verdict.allowed) return
  limits.throttled.add(throttledKey(), verdict.waitSeconds)
  await refuse(limits, reply, key, verdict.waitSeconds)
}

/** Refuses a request with a throttled credential. @throws ApiError 429 */
export async function refuseThrottled(limits: RequestLimits, reply: FastifyReply, key: string): Promise<void> {
  const waitSeconds = limits.throttled.secondsLeft(key)
  if (waitSeconds === undefined) return
  reply.headers(rateHeaders(limits.policy.tenant, { allowed: false, remaining: 0, waitSeconds }))
  await refuse(limits, reply, key, waitSeconds)
}

async function refuse(
  { delayedRefusals }: RequestLimits,
  reply: FastifyReply,
  key: string,
  waitSeconds: number,
): Promise<never> {
  await delayedRefusals.wait(key, reply)
  throw tooMany(waitSeconds)
}

const tooMany = (waitSeconds: number) =>
  new ApiError('rate_limited', `Too many requests. Try again in ${waitSeconds} s.`, { retryAfterSeconds: waitSeconds })
