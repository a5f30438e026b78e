/** The cell whose turn it is. */
import { type Cell, cells } from './cells.ts'

const dayMs = 86_400_000

/** Another one each day, so that each is run within weeks. */
export function cellInTurn(now: Date): Cell {
  const cell = cells[Math.floor(now.getTime() / dayMs) % cells.length]
  if (cell === undefined) throw new Error('BUG: the table of cells is empty')
  return cell
}
