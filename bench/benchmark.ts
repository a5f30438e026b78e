/** The definition of a benchmark: each file exports one. */
import type { GoalId } from './goals.ts'

export interface Benchmark {
  readonly name: string
  /** The requirement in words, with its figures. */
  readonly goal: string
  /** Goals (goals.ts) that its verdicts decide. */
  readonly covers?: readonly GoalId[]
  /** What is measured, compared with which limit or peer, and why the comparison is fair. */
  readonly how?: string
  /** What the figures mean and do not mean; why a goal is missed. */
  readonly reading?: string
  /** Runs only when it is named. */
  readonly onlyByName?: boolean
  /** Returns why it cannot run on this machine, or undefined if it can. */
  readonly unable?: () => Promise<string | undefined>
  readonly run: (report: Report) => Promise<void>
}

export type Unit = 'ms' | 'us' | '/s' | 'MiB' | 'MiB/s' | 'KiB'

/** How a value changes while another one grows. */
export interface Growth {
  readonly what: string
  readonly unit: Unit
  /** The growing quantity: "apps", "subscribers", "minutes". */
  readonly along: string
  /** The expected growth, drawn next to the measured one. Linear: through the origin and the last point. */
  readonly law?: 'flat' | 'linear'
  readonly points: readonly { readonly at: number; readonly value: number }[]
}

/** Receives the results of a benchmark while it runs. */
export interface Report {
  /** Samples of one value; printed as min, median and p99. */
  samples(what: string, unit: Unit, values: readonly number[]): Summary
  /** Reports a peer that is not available, and why. */
  absent(peer: string, why: string): void
  /** Adds a line of text to the result. */
  note(text: string): void
  /**
   * Adds a number that decides a goal. `most`: the goal is missed above it. `of`: the goal, if the benchmark covers
   * several.
   */
  verdict(what: string, value: number, most: number, of?: GoalId): void
  /** Like `verdict`, with a lower bound. */
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
