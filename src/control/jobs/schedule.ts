/** Computes the times of a cron schedule in a time zone, including daylight saving time. */
import { cronOf, scheduleFault } from '../../lib/cron.ts'
import { invalidField } from '../http/errors.ts'

/**
 * Returns the first time of the schedule after `after`; null if there is none.
 * @throws ApiError 400 for an invalid schedule or time zone
 */
export function nextTime(schedule: string, timeZone: string, after: Date): Date | null {
  const fault = scheduleFault(schedule, timeZone)
  if (fault) throw invalidField(fault.field, fault.message)
  return cronOf(schedule, timeZone).nextRun(after)
}
