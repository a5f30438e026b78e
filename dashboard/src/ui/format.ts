const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** Formats a size with at most three digits, such as `1.5 GiB`. */
export function bytes(count: number): string {
  let value = count
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2
  return `${Number(value.toFixed(digits))} ${units[unit]}`
}

export const mib = (count: number) => bytes(count * 1024 * 1024)

/** Formats a duration, such as `340 ms`, `1.2 s` or `3 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${ms < 10 && ms > 0 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

export const percent = (value: number) => `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)} %`

export const money = (cents: number, currency: string) =>
  new Intl.NumberFormat(undefined, { style: 'currency', currency }).format(cents / 100)

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' })
const steps = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['week', 604_800],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const

/** Formats a time relative to now, such as `5m ago`, `in 2d` or `just now`. */
export function ago(at: Date, now: Date): string {
  const seconds = (at.getTime() - now.getTime()) / 1000
  const step = steps.find(([, size]) => Math.abs(seconds) >= size)
  // Round times in the future, so that "seven days from now" is still `in 7d` a second later.
  const whole = seconds > 0 ? Math.round : Math.trunc
  return step ? relative.format(whole(seconds / step[1]), step[0]) : 'just now'
}

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
export const exactTime = (at: Date) => exact.format(at)

/** Shortens an id to its end, because the beginning is a timestamp, which ids of the same time share. */
export const shortId = (id: string) => id.slice(-8)
export const plural = (count: number, one: string, many = `${one}s`) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`
