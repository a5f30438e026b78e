/** Detects growth: a leak raises the minimum over time, because temporary resources are released again. */
import type { Counts } from './counts.ts'

export interface Row {
  readonly name: string
  /** Minimum of each third of the time. */
  readonly first: number
  readonly middle: number
  readonly last: number
  readonly grows: boolean
}

export interface Allowance {
  /** For sessions, sockets, files, timers and subscriptions, because pools may open their last members late. */
  readonly count: number
  /** For control planes under use instead: concurrent transactions open up to ten sessions of their pool. */
  readonly pooled: number
  /** For resident memory, which follows the garbage collector. */
  readonly mib: number
}

const isPooled = /^control-\d: (?:sockets|descriptors)$|pools$/
const allowedFor = (name: string, { count, pooled, mib }: Allowance) =>
  name.endsWith('MiB') ? mib : isPooled.test(name) ? pooled : count

/**
 * Returns a row for each name. A resource grows if each third has a higher minimum than the one before, and the last
 * exceeds the first by more than the allowance. A pool that fills up once rises in one step and stays.
 */
export function growthOf(samples: readonly Counts[], allowance: Allowance): Row[] {
  const third = Math.floor(samples.length / 3)
  if (third === 0) throw new Error('BUG: three samples are needed')
  const thirds = [samples.slice(0, third), samples.slice(third, 2 * third), samples.slice(2 * third)]
  return Object.keys(samples[0] ?? {}).map(name => {
    const [first = 0, middle = 0, last = 0] = thirds.map(part => Math.min(...part.map(counts => counts[name] ?? 0)))
    const isOver = last - first > allowedFor(name, allowance)
    return { name, first, middle, last, grows: isOver && middle > first && last > middle }
  })
}

/** Formats a table for people; growing resources are marked. */
export function tableOf(title: string, rows: readonly Row[]): string {
  const wide = Math.max(...rows.map(({ name }) => name.length), title.length)
  const line = (name: string, ...cells: readonly (string | number)[]) =>
    name.padEnd(wide) + cells.map(cell => String(cell).padStart(8)).join('')
  return [
    line(title, 'first', 'middle', 'last'),
    ...rows.map(({ name, first, middle, last, grows }) => line(name, first, middle, last) + (grows ? '  GROWS' : '')),
  ].join('\n')
}
