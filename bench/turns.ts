/** Alternates the measurements of a comparison, so that other load affects all of them. */

/** Share of the rounds to run: with MOTE_BENCH_SCALE=0.2, every benchmark runs a fifth of its rounds. */
const share = Number(process.env['MOTE_BENCH_SCALE'] ?? 1)
export const scaled = (count: number) => Math.max(1, Math.round(count * share))

export interface Warmth {
  /** Milliseconds for which each act is repeated before the first round; default: each act runs once. */
  readonly warmMs?: number
}

/** Time in which V8 compiles the code of a request: a control plane does not get faster after it. */
export const warm: Warmth = { warmMs: 2500 }

/**
 * Runs each of `acts` once per round, in alternating order, and returns the results. Before the first round, each act
 * is run for the same time without counting the results. An undefined act, such as that of an unavailable peer, yields
 * no results.
 */
export async function inTurns<K extends string, T>(
  rounds: number,
  acts: Readonly<Record<K, (() => Promise<T>) | undefined>>,
  { warmMs = 0 }: Warmth = {},
): Promise<Readonly<Record<K, readonly T[]>>> {
  const names = Object.keys(acts) as K[]
  const found = Object.fromEntries(names.map(name => [name, [] as T[]])) as Record<K, T[]>
  const present = names.flatMap(name => {
    const act = acts[name]
    return act === undefined ? [] : [{ act, values: found[name] }]
  })
  for (const { act } of present.toReversed()) {
    const endMs = performance.now() + warmMs * Math.min(1, share)
    do await act()
    while (performance.now() < endMs)
  }
  for (let round = 0; round < scaled(rounds); round++)
    for (const { act, values } of round % 2 === 0 ? present : present.toReversed()) values.push(await act())
  return found
}

/**
 * Returns the median of the ratios `over` / `under` of all rounds. A disturbance slows both parts of a round, so it
 * hardly changes their ratio.
 */
export function ratioOfRounds(over: readonly number[], under: readonly number[]): number {
  const ratios = over.map((value, round) => value / (under[round] ?? Number.NaN)).toSorted((a, b) => a - b)
  return ratios[Math.floor(ratios.length / 2)] ?? Number.NaN
}
