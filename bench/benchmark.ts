/** What a benchmark is: one readable file that exports one of these. */
import type { GoalId } from './goals.ts'

export interface Benchmark {
  readonly name: string
  /** What must hold, in words, with the number. */
  readonly goal: string
  /** Rows of the table of goals that its verdicts decide. */
  readonly covers?: readonly GoalId[]
  /** What is measured, beside which limit or peer, and why that is fair. */
  readonly how?: string
  /** What the figures say and do not say; why a goal is missed. */
  readonly reading?: string
  /** Runs only when it is named. */
  readonly onlyByName?: boolean
  /** Why it cannot run on this machine; undefined: it can. */
  readonly unable?: () => Promise<string | undefined>
  readonly run: (report: Report) => Promise<void>
}

export type Unit = 'ms' | 'us' | '/s' | 'MiB' | 'MiB/s' | 'KiB'

/** How something changes while something else grows. */
export interface Growth {
  readonly what: string
  readonly unit: Unit
  /** What grows: "apps", "subscribers", "minutes". */
  readonly along: string
  /** What it should follow; drawn beside it. Linear: through the origin and the last point. */
  readonly law?: 'flat' | 'linear'
  readonly points: readonly { readonly at: number; readonly value: number }[]
}

/** What a benchmark tells while it runs. */
export interface Report {
  /** Samples of one thing; printed as min, median and p99. */
  samples(what: string, unit: Unit, values: readonly number[]): Summary
  /** A peer that is not there, and why. */
  absent(peer: string, why: string): void
  /** A line for people. */
  note(text: string): void
  /** A number the goal is about. `most`: above it the goal is missed. `of`: the goal, when the benchmark covers several. */
  verdict(what: string, value: number, most: number, of?: GoalId): void
  /** The same for what must not be smaller. */
  atLeast(what: string, value: number, least: number, of?: GoalId): void
  /** A line of its own in the chart. */
  growth(series: Growth): void
}

export interface Summary {
  readonly min: number
  readonly median: number
  readonly p99: number
}

export function summarise(values: readonly number[]): Summary {
  if (values.length === 0) throw new Error('BUG: a benchmark without samples')
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
  return { min: at(0), median: at(0.5), p99: at(0.99) }
}

export const median = (values: readonly number[]): number => summarise(values).median
