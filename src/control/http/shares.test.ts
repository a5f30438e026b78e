/** Concurrent requests of one tenant: how many run, in which order, and that other tenants do not wait for them. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { bearer, createFixture, thing } from '../../../test/support/api-fixture.ts'
import { createShares } from './shares.ts'

const unlimited = { anonymousPerMinute: 1000, loginPerMinute: 1000, createsPerSecond: 1000, refusalDelayMs: 0 }
const never = () => new AbortController().signal

describe('the concurrent requests of one tenant', () => {
  it('are limited in number, and the one that has waited longest starts when another one ends', async () => {
    const shares = createShares(2)
    const first = await shares.take('a', never)
    const second = await shares.take('a', never)
    expect(shares.tryTake('a')).toBeUndefined()
    const order: string[] = []
    const waiting = ['third', 'fourth'].map(async name => {
      using _place = await shares.take('a', never)
      order.push(name)
    })
    await nextTurn()
    expect(order).toEqual([])
    first.release()
    first.release()
    await Promise.all(waiting)
    expect(order).toEqual(['third', 'fourth'])
    second.release()
    expect(shares.size).toBe(0)
  })

  it('do not count toward the limit of another tenant', async () => {
    const shares = createShares(1)
    using _held = await shares.take('a', never)
    using other = await shares.take('b', never)
    expect(other).toBeDefined()
  })

  it('do not include one whose client disconnected while it waited', async () => {
    const shares = createShares(1)
    const held = await shares.take('a', never)
    const gone = new AbortController()
    const waiting = shares.take('a', () => gone.signal)
    gone.abort()
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' })
    held.release()
    expect(shares.size).toBe(0)
  })
})

describe('a server', () => {
  const opened: (() => void)[] = []
  const started: string[] = []
  let writing = 0
  let mostWriting = 0
  const fixture = createFixture({
    config: { rateLimits: { ...unlimited, tenantPerMinute: 100 } },
    handlers: {
      pokeThing: {
        write: async call => async () => {
          call.audit({ action: 'poke', resourceType: 'thing' })
          mostWriting = Math.max(mostWriting, ++writing)
          await nextTurn()
          writing--
          return 'x'.repeat(10)
        },
      },
      getSecretThing: { read: async ({ params }) => ({ ...thing(params.thing_name), note: 'x'.repeat(200 << 10) }) },
      getThing: {
        read: async ({ params }) => {
          started.push(params.thing_name)
          if (params.thing_name.startsWith('slow')) await new Promise<void>(resolve => opened.push(resolve))
          return thing(params.thing_name)
        },
      },
    },
  })
  afterAll(() => fixture.app.close())
  const get = (name: string, person: string) =>
    fixture.app.inject({ method: 'GET', url: `/v1/things/${name}`, headers: bearer(person) })
  const untilStarted = async (count: number) => {
    while (started.length < count) await nextTurn()
    for (let turns = 0; turns < 20; turns++) await nextTurn()
  }

  it('runs at most four reads of a tenant at once; another tenant is served while further ones wait', async () => {
    const slow = Array.from({ length: 7 }, (_, n) => get(`slow-${n}`, 'ann'))
    await untilStarted(4)
    expect(started).toHaveLength(4)
    expect((await get('quick', 'bob')).statusCode).toBe(200)
    for (let at = 0; at < 7; at++) {
      await untilStarted(Math.min(8, 5 + at))
      opened[at]?.()
    }
    expect((await Promise.all(slow)).map(({ statusCode }) => statusCode)).toEqual(Array(7).fill(200))
  })

  it('runs at most four transactions of a tenant at once', async () => {
    const poke = () =>
      fixture.app.inject({
        method: 'POST',
        url: '/v1/things/a/poke',
        headers: { ...bearer('ann'), 'content-type': 'application/json' },
        payload: '{}',
      })
    const answers = await Promise.all(Array.from({ length: 12 }, poke))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual(Array(12).fill(200))
    expect(mostWriting).toBe(4)
  })

  it('counts a request as four toward the rate limit if its response has 200 KiB', async () => {
    const left = async () => Number(/r=(\d+)/.exec(String((await get('quick', 'carl')).headers['ratelimit']))?.[1])
    const before = await left()
    expect((await get('big/secret', 'carl')).statusCode).toBe(200)
    expect(before - (await left())).toBe(5)
  })
})
