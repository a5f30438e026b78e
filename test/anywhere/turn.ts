/** Selects the cell of the day. */
import { type Cell, cells } from './cells.ts'

const dayMs = 86_400_000

/**
 * Ordinary machines with a stable release: sid changes without notice, and unusual machines need a root that takes
 * minutes to build.
 */
export const inTurn: readonly Cell[] = cells.filter(({ odd, distribution }) => odd === null && distribution !== 'sid')

/** Selects a different cell each day, so that each runs within weeks. */
export function cellInTurn(now: Date): Cell {
  const cell = inTurn[Math.floor(now.getTime() / dayMs) % inTurn.length]
  if (cell === undefined) throw new Error('BUG: the table of cells is empty')
  return cell
}
