import { describe, expect, it } from 'vitest'
import { promisedMs } from '../../../test/support/wait.ts'
import { nextTime } from './schedule.ts'

const after = (schedule: string, zone: string, from: string) => nextTime(schedule, zone, new Date(from))?.toISOString()

describe('the next time of a schedule', () => {
  it.each([
    ['*/5 * * * *', 'UTC', '2026-11-23T10:02:30Z', '2026-11-23T10:05:00.000Z'],
    ['*/5 * * * *', 'UTC', '2026-11-23T10:05:00Z', '2026-11-23T10:10:00.000Z'],
    ['30 2 * * 1-5', 'Europe/Berlin', '2026-11-20T12:00:00Z', '2026-11-23T01:30:00.000Z'],
    ['0 0 29 2 *', 'UTC', '2026-11-23T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['@daily', 'America/New_York', '2026-11-23T00:00:00Z', '2026-11-23T05:00:00.000Z'],
    // On 2026-03-29, 2:30 does not exist. On 2026-10-25, it exists twice, but the job runs once.
    ['30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00:00Z', '2026-03-29T01:00:00.000Z'],
    ['30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00:00Z', '2026-10-25T00:30:00.000Z'],
    ['30 2 * * *', 'Europe/Berlin', '2026-10-25T00:30:00Z', '2026-10-26T01:30:00.000Z'],
  ])('is correct for %s in %s after %s', (schedule, zone, from, next) => {
    expect(after(schedule, zone, from)).toBe(next)
  })

  it('is null if the schedule never matches', () => expect(nextTime('0 0 31 2 *', 'UTC', new Date())).toBeNull())

  it.each([
    ['* * * * * *', 'UTC', 'five fields'],
    ['every day', 'UTC', 'five fields'],
    ['60 * * * *', 'UTC', 'no cron schedule'],
    ['* * * * *#9', 'UTC', 'no cron schedule'],
    ['9'.repeat(100), 'UTC', 'five fields'],
    ['* * * * *', 'Nowhere/Land', 'time zone'],
    ['* * * * *', '', 'time zone'],
  ])('is refused for the schedule %s in the time zone %s', (schedule, zone, reason) => {
    const start = performance.now()
    expect(() => nextTime(schedule, zone, new Date())).toThrow(reason)
    expect(performance.now() - start).toBeLessThan(promisedMs(50))
  })
})
