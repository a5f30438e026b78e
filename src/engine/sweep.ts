/**
 * Sweep: the form of all fleet-wide upkeep (dead hosts, expired tokens, orphans). No input, idempotent, only heals.
 * Runs on a timer or when poked, with one holder in the whole cluster (an advisory lock).
 */
export interface Sweep {
  readonly name: string
  readonly everyMs: number
  /** Returns what it found and did, as counts: shown by `mote admin sweeps`. */
  run(context: { readonly signal: AbortSignal; readonly now: Date }): Promise<Readonly<Record<string, number>>>
}
