/**
 * A sweep: periodic upkeep of the whole fleet (dead hosts, expired tokens, orphans). It has no input, is idempotent,
 * and only repairs. Runs on a timer or when poked, in one process of the cluster at a time (an advisory lock).
 */
export interface Sweep {
  readonly name: string
  readonly everyMs: number
  /** Returns counts of what it found and did, for `mote admin sweeps`. */
  run(context: { readonly signal: AbortSignal; readonly now: Date }): Promise<Readonly<Record<string, number>>>
}
