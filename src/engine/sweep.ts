/**
 * A sweep: periodic maintenance of the whole installation (dead hosts, expired tokens, orphans). A sweep has no input,
 * is idempotent, and only repairs. It runs on a timer or when poked, in one process of the cluster at a time (an
 * advisory lock).
 */
export interface Sweep {
  readonly name: string
  readonly everyMs: number
  /** Runs the sweep. Returns the numbers of objects that were found and repaired, for `mote admin sweeps`. */
  run(context: { readonly signal: AbortSignal; readonly now: Date }): Promise<Readonly<Record<string, number>>>
}
