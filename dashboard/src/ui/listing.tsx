/** A list from the server: its rows, or a hint while it is empty. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'
import { type Filtered, type RowFilter, useRowFilter } from './filter.tsx'
import { Card, Page } from './layout.tsx'
import { Empty, Loaded } from './states.tsx'
import { Table, type TableProps } from './table.tsx'

interface ListProps<T> extends Omit<TableProps<T>, 'rows'> {
  readonly query: UseQueryResult<readonly T[]>
  /** The hint that is shown while the list is empty. */
  readonly nothing: { readonly icon: LucideIcon; readonly title: string; readonly text?: ReactNode }
  /** The create button: beside the list's title, or in its middle while the list is empty. */
  readonly create?: ReactNode
  /** Filters of the list. The user's choice is stored (filter.tsx). */
  readonly filter?: RowFilter<T>
}

function List<T>(props: ListProps<T>) {
  const { filter } = props
  return filter ? <FilteredList {...props} filter={filter} /> : <Rows {...props} />
}

function FilteredList<T>({ filter, ...list }: ListProps<T> & { readonly filter: RowFilter<T> }) {
  return <Rows {...list} filtered={useRowFilter(filter, list.query.data)} />
}

function Rows<T>({ query, nothing, create, filtered, ...table }: ListProps<T> & { readonly filtered?: Filtered<T> }) {
  return (
    <Loaded query={query}>
      {rows => {
        if (rows.length === 0)
          return (
            <Empty icon={nothing.icon} title={nothing.title} action={create}>
              {nothing.text}
            </Empty>
          )
        const shown = filtered ? rows.filter(filtered.shows) : rows
        return (
          <>
            {filtered && <div className="flex flex-wrap items-center gap-3 px-3 pt-3 empty:hidden">{filtered.bar}</div>}
            {filtered && shown.length === 0 ? (
              <p className="px-4 py-8 text-center text-muted">{filtered.nothing}</p>
            ) : (
              <Table {...table} rows={shown} />
            )}
          </>
        )
      }}
    </Loaded>
  )
}

const ifAny = <T,>({ query, create }: ListProps<T>) => (query.data && query.data.length > 0 ? create : undefined)

interface Heading {
  readonly lead?: ReactNode
  /** Controls beside the list's title, which are always shown. */
  readonly actions?: ReactNode
}

/** A card with a list. @param children shown between the title and the list */
export function ListCard<T>({
  title,
  lead,
  actions,
  children,
  ...list
}: ListProps<T> & Heading & { readonly title: string; readonly children?: ReactNode }) {
  return (
    <Card flush title={title} lead={lead} actions={actions ?? ifAny(list)}>
      {children}
      <List {...list} />
    </Card>
  )
}

/** A page with a single list. */
export function ListPage<T>({ title, lead, actions, ...list }: ListProps<T> & Heading & { readonly title: string }) {
  return (
    <Page title={title} lead={lead} actions={actions ?? ifAny(list)}>
      <Card flush>
        <List {...list} />
      </Card>
    </Page>
  )
}
