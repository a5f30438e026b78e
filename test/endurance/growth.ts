/** Detects leaks: a leak raises the minimum of a count over time, whereas temporary resources are released again. */
import type { Counts } from './counts.ts'

export interface Row {
  readonly name: string
  /** Minimum of the first third of the samples; then of the second and last third. */
  readonly first: number
  readonly middle: number
  readonly last: number
  readonly grows: boolean
}

export interface Allowance {
  /** Allowed growth of most counts, such as sockets and timers: pools may open their last members late. */
  readonly count: number
  /** Allowed growth of pooled database sessions and the control planes' sockets under use: a pool has ten sessions. */
  readonly pooled: number
  /** Allowed growth of memory, which depends on when garbage is collected. */
  readonly mib: number
}

const isPooled = /^control-\d: (?:sockets|descriptors)$|pools$/
const allowedFor = (name: string, { count, pooled, mib }: Allowance) =>
  name.endsWith('MiB') ? mib : isPooled.test(name) ? pooled : count

/**
 * Returns a row for each name. A resource grows if each third of the samples has a higher minimum than the one before,
 * and the last exceeds the first by more than the allowance. A pool that fills up once rises only once, so it does not
 * count as growing.
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

/** Formats the rows as a text table in which growing resources are marked. */
export function tableOf(title: string, rows: readonly Row[]): string {
  const wide = Math.max(...rows.map(({ name }) => name.length), title.length)
  const line = (name: string, ...cells: readonly (string | number)[]) =>
    name.padEnd(wide) + cells.map(cell => String(cell).padStart(8)).join('')
  return [
    line(title, 'first', 'middle', 'last'),
    ...rows.map(({ name, first, middle, last, grows }) => line(name, first, middle, last) + (grows ? '  GROWS' : '')),
  ].join('\n')
}
