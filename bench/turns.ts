/** Things that are compared take turns, so that whatever else the machine does meets all of them. */

/** MOTE_BENCH_SCALE=0.2: a fifth of the rounds, for a quick look. */
const share = Number(process.env['MOTE_BENCH_SCALE'] ?? 1)
export const scaled = (count: number) => Math.max(1, Math.round(count * share))

/**
 * Runs each of `acts` once a round, in another order each time, and collects what they return. The first round warms up and
 * does not count.
 */
export async function inTurns<K extends string, T>(
  rounds: number,
  acts: Readonly<Record<K, () => Promise<T>>>,
): Promise<Readonly<Record<K, readonly T[]>>> {
  const names = Object.keys(acts) as K[]
  const found = Object.fromEntries(names.map(name => [name, [] as T[]])) as Record<K, T[]>
  for (let round = -1; round < scaled(rounds); round++)
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const value = await acts[name]()
      if (round >= 0) found[name].push(value)
    }
  return found
}

/** Median of the ratios of each round: what slows a round slows both of its parts. */
export function ratioOfRounds(over: readonly number[], under: readonly number[]): number {
  const ratios = over.map((value, round) => value / (under[round] ?? Number.NaN)).toSorted((a, b) => a - b)
  return ratios[Math.floor(ratios.length / 2)] ?? Number.NaN
}
