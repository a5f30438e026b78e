/**
 * Filters of a list: a search field and a button for each status. The choice is part of the URL, so that a link shows
 * the same rows to others, and is stored in the browser for the account's next visit.
 */
import { useLocation, useNavigate } from '@tanstack/react-router'
import { Search } from 'lucide-react'
import { type ReactNode, useEffect, useState } from 'react'
import { currentPerson } from '../api/session.ts'
import { Button } from './button.tsx'
import { cx } from './cx.ts'
import { controlLook } from './form.tsx'

type Choice = Readonly<Record<string, string>>

/** Maximum length of a filter value from a URL or the browser's storage; longer ones are cut. */
const mostCharacters = 200

function choiceIn(search: unknown, names: readonly string[]): Choice {
  const given: Record<string, unknown> = typeof search === 'object' && search !== null ? { ...search } : {}
  const known = names.map(name => [name, given[name]] as const)
  // Convert values to text: the router parses `?action=5` as a number.
  return Object.fromEntries(
    known.flatMap(([name, value]) =>
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
        ? [[name, String(value).slice(0, mostCharacters)]]
        : [],
    ),
  )
}

const placeOf = (list: string) => `mote.filter.${currentPerson()}.${list}`

function stored(list: string, names: readonly string[]): Choice {
  const text = localStorage.getItem(placeOf(list))
  try {
    return choiceIn(text === null ? undefined : JSON.parse(text), names)
  } catch {
    return {}
  }
}

export interface Filter {
  /** Returns the chosen value of a filter; empty: the filter shows everything. */
  of(name: string): string
  set(name: string, value: string): void
}

/**
 * The filter of one list. The URL takes precedence over the stored choice.
 * @param list key of the list, the same on every page that shows it
 * @param names query parameters of the URL; lists on the same page need different names
 */
export function useFilter(list: string, names: readonly string[]): Filter {
  const { pathname, search } = useLocation()
  const navigate = useNavigate()
  const [choice, setChoice] = useState<Choice>(() => {
    const given = choiceIn(search, names)
    return Object.keys(given).length > 0 ? given : stored(list, names)
  })
  useEffect(() => {
    const chosen = Object.fromEntries(names.map(name => [name, choice[name] || undefined]))
    if (names.every(name => (choiceIn(search, names)[name] ?? '') === (choice[name] ?? ''))) return
    void navigate({ to: '.', search: before => ({ ...before, ...chosen }), replace: true, resetScroll: false })
    // Do not depend on `search`: this effect changes the URL, so it may only run after a choice or a page change.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [choice, pathname])
  return {
    of: name => choice[name] ?? '',
    set(name, value) {
      const next = { ...choice, [name]: value }
      setChoice(next)
      if (Object.values(next).some(Boolean)) localStorage.setItem(placeOf(list), JSON.stringify(next))
      else localStorage.removeItem(placeOf(list))
    },
  }
}

/** How the rows of a list are filtered in the browser. */
export interface RowFilter<T> {
  /** Key of the list, the same on every page that shows it. */
  readonly list: string
  /** Accessible name of the search field, such as `Find a volume`; without it there is none. */
  readonly find?: string
  /** Returns the text of a row in which the search looks for its words. */
  readonly text?: (row: T) => string
  readonly status?: (row: T) => string
}

/** Number of rows from which on the list has a search field. */
const searchFrom = 6

export interface Filtered<T> {
  /** The filter controls; empty while there is nothing to choose. */
  readonly bar: ReactNode
  shows(row: T): boolean
  /** Message that is shown if no row passes the filters. */
  readonly nothing: string
}

const noRows: readonly never[] = []

/** Filters rows in the browser. @param rows all rows of the list */
export function useRowFilter<T>(filter: RowFilter<T>, rows: readonly T[] = noRows): Filtered<T> {
  const { list, find, text, status } = filter
  const chosen = useFilter(list, [`${list}_find`, `${list}_status`])
  const [wanted, state] = [chosen.of(`${list}_find`), chosen.of(`${list}_status`)]
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean)
  const hasSearch = find !== undefined && (rows.length >= searchFrom || wanted !== '')
  const bar = (
    <>
      {hasSearch && <SearchField label={find} value={wanted} onChange={value => chosen.set(`${list}_find`, value)} />}
      {status && (
        <StatusFilter statuses={rows.map(status)} chosen={state} choose={one => chosen.set(`${list}_status`, one)} />
      )}
    </>
  )
  const shows = (row: T) => {
    const inText = text?.(row).toLowerCase() ?? ''
    return words.every(word => inText.includes(word)) && (state === '' || status?.(row) === state)
  }
  const nothing = wanted ? `Nothing matches “${wanted}”.` : `Nothing is ${state.replaceAll('_', ' ')}.`
  return { bar, shows, nothing }
}

export function SearchField({
  label,
  value,
  onChange,
  placeholder = label,
  className = 'w-full sm:max-w-xs',
}: {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly placeholder?: string
  readonly className?: string
}) {
  return (
    <div className={cx('relative', className)}>
      <Search aria-hidden="true" size={14} className="absolute top-2.25 left-2.5 text-faint" />
      <input
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={value}
        maxLength={mostCharacters}
        onChange={event => onChange(event.target.value)}
        className={`${controlLook} border-line-strong pl-8`}
      />
    </div>
  )
}

const words = (status: string) => status.charAt(0).toUpperCase() + status.slice(1).replaceAll('_', ' ')

/** A button for each status in the list; hidden while all rows have the same status. @param chosen empty for all */
function StatusFilter({
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
    <div role="group" aria-label="Filter" className="flex flex-wrap gap-1">
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
