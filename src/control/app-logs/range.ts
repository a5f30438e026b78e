/** The time span of a search, in microseconds since the epoch. */
import { invalidField } from '../http/errors.ts'

const duration = /^(\d{1,6})([smhdw])$/
const unitSeconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }
const rfc3339 = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,3}(\d{0,3})\d{0,6})?(?:[Zz]|[+-]\d\d:\d\d)$/

/** Parses a time, or a duration before `now`. @throws ApiError 400 naming the field */
export function timeUs(field: 'since' | 'until', value: string, now: Date): number {
  const [, count, unit] = duration.exec(value) ?? []
  if (count !== undefined && unit !== undefined)
    return Math.max(0, (now.getTime() - Number(count) * (unitSeconds[unit] ?? 0) * 1000) * 1000)
  const match = rfc3339.exec(value)
  const ms = match ? Date.parse(value) : Number.NaN
  if (Number.isNaN(ms))
    throw invalidField(field, 'Give a time such as 2026-03-14T09:26:53Z, or how long ago, such as 15m, 1h or 7d.')
  return Math.max(0, ms * 1000 + Number((match?.[1] ?? '').padEnd(3, '0')))
}

export interface Span {
  /** The search returns only lines later than `afterUs` and earlier than `beforeUs`. */
  readonly afterUs: number
  readonly beforeUs: number
}

/** Returns the time span of a log search, limited by the retention of logs. @throws ApiError 400 */
export function spanOf(
  query: { readonly since?: string | undefined; readonly until?: string | undefined },
  retentionMs: number,
  now: Date,
): Span {
  const oldestUs = (now.getTime() - retentionMs) * 1000
  // A search returns a line at exactly `since`, but not a line at exactly `until`.
  const afterUs = query.since === undefined ? oldestUs : timeUs('since', query.since, now) - 1
  const beforeUs = query.until === undefined ? Number.MAX_SAFE_INTEGER : timeUs('until', query.until, now)
  if (beforeUs <= afterUs + 1) throw invalidField('until', 'Give a time after `since`.')
  return { afterUs: Math.max(0, afterUs, oldestUs), beforeUs }
}
