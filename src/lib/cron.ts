/** Validates cron schedules: five fields as in crontab(5), or a shortcut, in an IANA time zone. */
import { Cron } from 'croner'
import type { FieldFault } from './faults.ts'

const fieldCount = 5
const shortcuts = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/

/**
 * Returns what is wrong with the schedule or its time zone; undefined if nothing is. `field` is `schedule` or
 * `time_zone`.
 */
export function scheduleFault(schedule: string, timeZone: string): FieldFault | undefined {
  const fields = schedule.trim().split(/\s+/)
  if (fields.length !== fieldCount && !shortcuts.test(schedule.trim()))
    return { field: 'schedule', message: 'must have five fields: minute, hour, day of month, month, day of week' }
  if (!isTimeZone(timeZone)) return { field: 'time_zone', message: 'is no IANA time zone, such as Europe/Berlin' }
  try {
    cronOf(schedule, timeZone)
    return undefined
  } catch {
    return { field: 'schedule', message: 'is no cron schedule, such as "30 2 * * 1-5"' }
  }
}

/** Parses a schedule. The result computes times but never starts a timer. @throws Error for an invalid schedule */
export const cronOf = (schedule: string, timeZone: string) =>
  new Cron(schedule.trim(), { timezone: timeZone, paused: true })

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}
