/** A seeded random number generator (mulberry32): the same seed gives the same choices. */
export interface Random {
  /** Returns a number in [0, 1). */
  next(): number
  below(n: number): number
  chance(p: number): boolean
  pick<T>(from: readonly T[]): T | undefined
}

export function random(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (n: number) => Math.floor(next() * n)
  return { next, below, chance: p => next() < p, pick: from => from[below(from.length)] }
}
