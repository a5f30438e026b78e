/** Times of a cron schedule, in a time zone with its changes of daylight saving time. */
import { cronOf, scheduleFault } from '../../lib/cron.ts'
import { invalidField } from '../http/errors.ts'

/**
 * Returns the first time after the given one; null if there is none.
 * @throws ApiError 400 for a schedule or a time zone that is not valid
 */
export function nextTime(schedule: string, timeZone: string, after: Date): Date | null {
  const fault = scheduleFault(schedule, timeZone)
  if (fault) throw invalidField(fault.field, fault.message)
  return cronOf(schedule, timeZone).nextRun(after)
}
