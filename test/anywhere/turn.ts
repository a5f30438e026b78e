/** The cell whose turn it is. */
import { type Cell, cells } from './cells.ts'

const dayMs = 86_400_000

/** Usual machines with a stable release; sid changes under us, and odd machines need a root that takes minutes to make. */
export const inTurn: readonly Cell[] = cells.filter(({ odd, distribution }) => odd === null && distribution !== 'sid')

/** Another one each day, so that each is run within weeks. */
export function cellInTurn(now: Date): Cell {
  const cell = inTurn[Math.floor(now.getTime() / dayMs) % inTurn.length]
  if (cell === undefined) throw new Error('BUG: the table of cells is empty')
  return cell
}
