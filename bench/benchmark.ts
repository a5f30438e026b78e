/** What a benchmark is: one readable file that exports one of these. */
export interface Benchmark {
  readonly name: string
  /** What must hold, in words, with the number. */
  readonly goal: string
  /** Why it cannot run on this machine; undefined: it can. */
  readonly unable?: () => Promise<string | undefined>
  readonly run: (report: Report) => Promise<void>
}

/** What a benchmark tells while it runs. */
export interface Report {
  /** Samples of one thing; printed as min, median and p99. */
  samples(what: string, unit: 'ms' | 'us', values: readonly number[]): Summary
  /** A line for people. */
  note(text: string): void
  /** A number the goal is about. `most`: above it the goal is missed. */
  verdict(what: string, value: number, most: number): void
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
