/** Validates cron schedules: five fields as in crontab(5), or a shortcut, in an IANA time zone. */
import { Cron } from 'croner'
import type { FieldFault } from './faults.ts'

const fieldCount = 5
const shortcuts = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/

/** Returns why the schedule or its time zone is not valid; `field` is `schedule` or `time_zone`. */
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

/** Paused: it only computes times, and never starts a timer. @throws Error for a schedule that is not valid */
export const cronOf = (schedule: string, timeZone: string) =>
  new Cron(schedule.trim(), { timezone: timeZone, paused: true })

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}
