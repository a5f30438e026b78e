import { expect, it } from 'vitest'
import { bearer, createFixture } from '../../../test/support/api-fixture.ts'
import { createThrottledCredentials, throttledId } from './throttled-credentials.ts'

it('a credential is throttled until its wait is over, and the oldest credential is evicted when the set is full', () => {
  let nowMs = 0
  const throttled = createThrottledCredentials({ monotonicMs: () => nowMs }, 2)
  throttled.add('a', 3)
  expect(throttled.secondsLeft('a')).toBe(3)
  nowMs = 2_500
  expect(throttled.secondsLeft('a')).toBe(1)
  nowMs = 3_000
  expect(throttled.secondsLeft('a')).toBeUndefined()
  for (const id of ['a', 'b', 'c']) throttled.add(id, 10)
  expect(['a', 'b', 'c'].map(id => throttled.secondsLeft(id))).toEqual([undefined, 10, 10])
  expect(throttledId('secret', 'x')).not.toContain('secret')
})

it('a throttled credential is refused without authentication, in one project only', async () => {
  const rateLimits = {
    tenantPerMinute: 2,
    anonymousPerMinute: 100,
    loginPerMinute: 100,
    createsPerSecond: 1000,
    refusalDelayMs: 0,
  }
  const fixture = createFixture({ config: { rateLimits } })
  const ask = (project?: string) =>
    fixture.app.inject({
      url: '/v1/things',
      headers: { ...bearer('ann'), ...(project === undefined ? {} : { 'x-project': project }) },
    })
  const statuses = [await ask(), await ask(), await ask(), await ask()].map(answer => answer.statusCode)
  expect(statuses).toEqual([200, 200, 429, 429])
  const refused = await ask()
  expect(refused.headers['retry-after']).toBe('30')
  expect(refused.headers['ratelimit']).toBe('"tenant";r=0;t=30')
  expect((await ask('none-of-hers')).statusCode).toBe(404)
  await fixture.app.close()
})
