/** Selects the test system that `npm test` uses on a given day. */
import { type Cell, cells } from './cells.ts'

const dayMs = 86_400_000

/**
 * Ordinary systems with a stable release. The list excludes sid, which changes without notice, and unusual systems,
 * whose root file system takes minutes to build.
 */
export const inTurn: readonly Cell[] = cells.filter(({ odd, distribution }) => odd === null && distribution !== 'sid')

/** Returns a different system each day, so that each is tested every few weeks. */
export function cellInTurn(now: Date): Cell {
  const cell = inTurn[Math.floor(now.getTime() / dayMs) % inTurn.length]
  if (cell === undefined) throw new Error('BUG: the list of test systems is empty')
  return cell
}
