/** Filters a list by status; the choice is kept in the browser. */
import { useState } from 'react'
import { Button } from './button.tsx'

/** @param key of the list; a choice that cannot be stored is kept until the page is left */
export function useStatusFilter(key: string): readonly [string, (status: string) => void] {
  const place = `mote.filter.${key}`
  const [chosen, setChosen] = useState(() => localStorage.getItem(place) ?? '')
  const choose = (status: string) => {
    setChosen(status)
    if (status === '') localStorage.removeItem(place)
    else localStorage.setItem(place, status)
  }
  return [chosen, choose]
}

const words = (status: string) => status.charAt(0).toUpperCase() + status.slice(1).replaceAll('_', ' ')

/** One button for each status in the list; hidden while all rows have the same one. @param chosen empty for all */
export function StatusFilter({
  statuses,
  chosen,
  choose,
}: {
  readonly statuses: readonly string[]
  readonly chosen: string
  readonly choose: (status: string) => void
}) {
  const counts = new Map<string, number>()
  for (const status of statuses) counts.set(status, (counts.get(status) ?? 0) + 1)
  if (chosen !== '' && !counts.has(chosen)) counts.set(chosen, 0)
  if (counts.size < 2) return null
  return (
    <div role="group" aria-label="Filter by status" className="flex flex-wrap gap-1">
      {[['', statuses.length] as const, ...[...counts].toSorted()].map(([status, count]) => (
        <Button
          key={status}
          size="small"
          look={status === chosen ? 'plain' : 'quiet'}
          aria-pressed={status === chosen}
          onClick={() => choose(status)}
        >
          {status === '' ? 'All' : words(status)} <span className="text-xs text-muted tabular-nums">{count}</span>
        </Button>
      ))}
    </div>
  )
}
