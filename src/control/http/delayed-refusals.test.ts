import { EventEmitter } from 'node:events'
import type { FastifyReply } from 'fastify'
import { describe, expect, it } from 'vitest'
import { bearer, createFixture } from '../../../test/support/api-fixture.ts'
import { createDelayedRefusals } from './delayed-refusals.ts'

const never = 3_600_000
const stoppedClock = { monotonicMs: () => 0 }

function client() {
  const raw = Object.assign(new EventEmitter(), { destroyed: false })
  const headers: Record<string, unknown> = {}
  const reply = { raw, header: (name: string, value: unknown) => void (headers[name] = value) } as unknown
  return { reply: reply as FastifyReply, headers, leave: () => void raw.emit('close') }
}

/** Returns whether the promise has settled after all pending callbacks have run. */
async function isOver(promise: Promise<void>): Promise<boolean> {
  let over = false
  void promise.then(() => (over = true))
  await new Promise(setImmediate)
  return over
}

describe('a 429 response', () => {
  it('is sent at once for the first refusals of a rate limit key in a second, and delayed for further ones', async () => {
    const late = createDelayedRefusals(stoppedClock, { delayMs: never, atOnce: 2 })
    const clients = Array.from({ length: 3 }, client)
    const waits = clients.map(({ reply }) => late.wait('greedy', reply))
    expect(await Promise.all(waits.map(isOver))).toEqual([true, true, false])
    expect(await isOver(late.wait('other', client().reply)), 'of another caller').toBe(true)
    clients[2]?.leave()
    await waits[2]
  })

  it('is sent at once again a second after the first one', async () => {
    let ms = 0
    const late = createDelayedRefusals({ monotonicMs: () => ms }, { delayMs: never, atOnce: 1 })
    await late.wait('a', client().reply)
    ms = 1000
    expect(await isOver(late.wait('a', client().reply))).toBe(true)
  })

  it('is sent at once and closes the connection if too many requests are already waiting', async () => {
    const late = createDelayedRefusals(stoppedClock, { delayMs: never, atOnce: 0, mostWaiting: 1 })
    const [first, second, third] = [client(), client(), client()]
    const waiting = late.wait('a', first.reply)
    await late.wait('a', second.reply)
    expect(second.headers).toEqual({ connection: 'close' })
    first.leave()
    await waiting
    const again = late.wait('a', third.reply)
    expect(await isOver(again)).toBe(false)
    third.leave()
    await again
  })

  it('is delayed for a rate limit key beyond the maximum number of counted keys', async () => {
    const late = createDelayedRefusals(stoppedClock, { delayMs: never, mostKeys: 1 })
    await late.wait('a', client().reply)
    const second = client()
    const waiting = late.wait('b', second.reply)
    expect(await isOver(waiting)).toBe(false)
    second.leave()
    await waiting
  })
})

const delayMs = 60
const one = { tenantPerMinute: 1, anonymousPerMinute: 1, loginPerMinute: 1, createsPerSecond: 1000 }

describe('the server delays refusals of a client that keeps exceeding the rate limit', () => {
  it.each([
    ['of a project', { url: '/v1/things', headers: bearer('ann') }],
    ['of an IP address without a credential', { url: '/v1/captcha' }],
    ['of guessed credentials', { url: '/v1/things', headers: { authorization: 'Bearer guess' } }],
    ['of guessed projects', { url: '/v1/things', headers: { ...bearer('ann'), 'x-project': 'guess' } }],
    ['of sign-ins', { method: 'POST', url: '/v1/sign-in', payload: { email: 'a@x', password: 'x' } }],
  ] as const)('%s', async (_, request) => {
    const { app } = createFixture({ config: { rateLimits: { ...one, refusalDelayMs: delayMs } } })
    const asked = await Promise.all(
      Array.from({ length: 30 }, async () => {
        const began = performance.now()
        const { statusCode } = await app.inject(request)
        return { statusCode, ms: performance.now() - began }
      }),
    )
    const refused = asked.filter(({ statusCode }) => statusCode === 429)
    expect(refused.length).toBeGreaterThan(20)
    // Ten refusals in a second are sent at once. A new second may have begun during the requests.
    expect(refused.filter(({ ms }) => ms >= delayMs - 1).length).toBeGreaterThan(0)
    await app.close()
  })
})
