/** A list from the server: its rows, or a hint while it is empty. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'
import { Card, Page } from './layout.tsx'
import { Empty, Loaded } from './states.tsx'
import { Table, type TableProps } from './table.tsx'

interface ListProps<T> extends Omit<TableProps<T>, 'rows'> {
  readonly query: UseQueryResult<readonly T[]>
  /** Shown while the list is empty. */
  readonly nothing: { readonly icon: LucideIcon; readonly title: string; readonly text?: ReactNode }
  /** The create button: beside the title, and in the middle while the list is empty. */
  readonly create?: ReactNode
  /** Shown above the rows. */
  readonly filter?: ReactNode
  /** Whether the filter lets a row through; default: all. */
  readonly shows?: (row: T) => boolean
}

function List<T>({ query, nothing, create, filter, shows = () => true, ...table }: ListProps<T>) {
  return (
    <Loaded query={query}>
      {rows =>
        rows.length === 0 ? (
          <Empty icon={nothing.icon} title={nothing.title} action={create}>
            {nothing.text}
          </Empty>
        ) : (
          <>
            {filter && <div className="px-3 pt-3 empty:hidden">{filter}</div>}
            <Table {...table} rows={rows.filter(shows)} />
          </>
        )
      }
    </Loaded>
  )
}

const ifAny = <T,>({ query, create }: ListProps<T>) => (query.data && query.data.length > 0 ? create : undefined)

interface Heading {
  readonly lead?: ReactNode
  /** Always shown beside the title. */
  readonly actions?: ReactNode
}

/** @param children shown between the title and the list */
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
