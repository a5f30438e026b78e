/** Whether something grows: a leak shows in the least of a while, since whatever is open for a moment closes again. */
import type { Counts } from './counts.ts'

export interface Row {
  readonly name: string
  /** The least of each third of the time. */
  readonly first: number
  readonly middle: number
  readonly last: number
  readonly grows: boolean
}

export interface Allowance {
  /** Sessions, sockets, files, timers, subscriptions: pools open their last members late. */
  readonly count: number
  /** Of control planes under use, instead: transactions open sessions of their pool as they come together, ten at most. */
  readonly pooled: number
  /** Resident memory follows the garbage collector. */
  readonly mib: number
}

const isPooled = /^control-\d: (?:sockets|descriptors)$|pools$/
const allowedFor = (name: string, { count, pooled, mib }: Allowance) =>
  name.endsWith('MiB') ? mib : isPooled.test(name) ? pooled : count

/**
 * A row for each name. It grows when both later thirds have more than the one before, and the last one has more than the
 * first by over the allowance: a pool that fills up once goes up in one step and stays.
 */
export function growthOf(samples: readonly Counts[], copyTimeout: Allowance): Row[] {
  const third = Math.floor(samples.length / 3)
  if (third === 0) throw new Error('BUG: three samples are needed')
  const thirds = [samples.slice(0, third), samples.slice(third, 2 * third), samples.slice(2 * third)]
  return Object.keys(samples[0] ?? {}).map(name => {
    const [first = 0, middle = 0, last = 0] = thirds.map(part => Math.min(...part.map(counts => counts[name] ?? 0)))
    const isOver = last - first > allowedFor(name, copyTimeout)
    return { name, first, middle, last, grows: isOver && middle > first && last > middle }
  })
}

/** A table for people; what grows is marked. */
export function tableOf(title: string, rows: readonly Row[]): string {
  const wide = Math.max(...rows.map(({ name }) => name.length), title.length)
  const line = (name: string, ...cells: readonly (string | number)[]) =>
    name.padEnd(wide) + cells.map(cell => String(cell).padStart(8)).join('')
  return [
    line(title, 'first', 'middle', 'last'),
    ...rows.map(({ name, first, middle, last, grows }) => line(name, first, middle, last) + (grows ? '  GROWS' : '')),
  ].join('\n')
}
