/** Times of a cron schedule: five fields as in crontab(5), in a time zone with its changes of daylight saving time. */
import { Cron } from 'croner'
import { ApiError, invalidField } from '../http/errors.ts'

const fieldCount = 5
const shortcuts = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/

/**
 * Returns the first time after the given one; null if there is none.
 * @throws ApiError 400 for a schedule or a time zone that is not valid
 */
export function nextTime(schedule: string, timeZone: string, after: Date): Date | null {
  const fields = schedule.trim().split(/\s+/)
  if (fields.length !== fieldCount && !shortcuts.test(schedule.trim()))
    throw invalidField('schedule', 'must have five fields: minute, hour, day of month, month, day of week')
  if (!isTimeZone(timeZone)) throw invalidField('time_zone', 'is no IANA time zone, such as Europe/Berlin')
  try {
    // Paused: it only computes times, and never starts a timer.
    return new Cron(schedule.trim(), { timezone: timeZone, paused: true }).nextRun(after)
  } catch (cause) {
    if (cause instanceof ApiError) throw cause
    throw invalidField('schedule', 'is no cron schedule, such as "30 2 * * 1-5"')
  }
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}
