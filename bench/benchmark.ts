/** The definition of a benchmark, as the files in this folder export it. */
import type { GoalId } from './goals.ts'

export interface Benchmark {
  readonly name: string
  /** The goal of the benchmark in words, with its figures. */
  readonly goal: string
  /** Product goals (goals.ts) that the verdicts of the benchmark decide. */
  readonly covers?: readonly GoalId[]
  /** Text that says what is measured, with which limit or peer it is compared, and why the comparison is fair. */
  readonly how?: string
  /** Text that explains what the figures mean and do not mean, and why a goal is missed. */
  readonly reading?: string
  /** Whether the benchmark runs only if it is named on the command line. */
  readonly onlyByName?: boolean
  /** Returns why the benchmark cannot run on this computer, or undefined if it can. */
  readonly unable?: () => Promise<string | undefined>
  readonly run: (report: Report) => Promise<void>
}

export type Unit = 'ms' | 'us' | '/s' | 'MiB' | 'MiB/s' | 'KiB'

/** How a measured value changes while a quantity grows. */
export interface Growth {
  readonly what: string
  readonly unit: Unit
  /** The growing quantity: "apps", "subscribers", "minutes". */
  readonly along: string
  /**
   * The expected growth, which the chart shows next to the measured one. `flat`: constant at the first value.
   * `linear`: a line through the origin and the last point.
   */
  readonly law?: 'flat' | 'linear'
  readonly points: readonly { readonly at: number; readonly value: number }[]
}

/** Receives the results of a benchmark while it runs. */
export interface Report {
  /** Adds the samples of a measured value, which are printed as minimum, median and p99. */
  samples(what: string, unit: Unit, values: readonly number[]): Summary
  /** Reports a peer that is not available, and why. */
  absent(peer: string, why: string): void
  /** Adds a line of text to the result. */
  note(text: string): void
  /**
   * Adds a number that decides a goal: the goal is missed if `value` is above `most`. `of`: the id of the goal, if the
   * benchmark covers several.
   */
  verdict(what: string, value: number, most: number, of?: GoalId): void
  /** Adds a number that decides a goal: the goal is missed if `value` is below `least`. */
  atLeast(what: string, value: number, least: number, of?: GoalId): void
  /** Adds a line to the chart. */
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
