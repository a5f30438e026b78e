/** Returns the allowed name that is closest to the given one, if it was probably meant. */
export function closestTo(given: string, allowed: readonly string[]): string | undefined {
  const [best] = allowed
    .map(name => ({ name, edits: editsBetween(given.toLowerCase().slice(0, longest), name) }))
    .toSorted((a, b) => a.edits - b.edits)
  return best !== undefined && best.edits <= Math.max(1, Math.floor(best.name.length / 3)) ? best.name : undefined
}

/** Maximum length of a name to compare; no allowed name is nearly as long. */
const longest = 64

/**
 * Counts the insertions, deletions, replacements and swaps of neighbors between two names (optimal string alignment).
 */
function editsBetween(from: string, to: string): number {
  let before: readonly number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (let line = 1; line <= from.length; line++) {
    const next = [line]
    for (let at = 1; at <= to.length; at++) {
      const isSame = from[line - 1] === to[at - 1]
      const isSwap = from[line - 1] === to[at - 2] && from[line - 2] === to[at - 1]
      next.push(
        Math.min(
          (next[at - 1] ?? 0) + 1,
          (row[at] ?? 0) + 1,
          (row[at - 1] ?? 0) + (isSame ? 0 : 1),
          isSwap ? (before[at - 2] ?? Number.POSITIVE_INFINITY) + 1 : Number.POSITIVE_INFINITY,
        ),
      )
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}
