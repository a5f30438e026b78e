/** A card with a list whose items are added with a form and removed by name: keys, tokens, credentials, groups. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ComponentProps, ReactNode } from 'react'
import { FormDialog } from './dialog.tsx'
import type { Values } from './form.tsx'
import { Mono } from './layout.tsx'
import { ListCard } from './listing.tsx'
import { AddButton, DestroyLink } from './row-actions.tsx'
import type { Column } from './table.tsx'

interface Adding {
  /** Text of the button that opens the form. */
  readonly text: string
  readonly look?: 'primary'
  readonly title: string
  readonly submit: string
  readonly fields: ReactNode
  readonly send: (values: Values) => Promise<unknown>
}

interface Removing<T> {
  readonly verb: string
  readonly what: string
  readonly consequence: string
  readonly send: (row: T) => Promise<unknown>
}

interface OwnedListProps<T> extends Pick<ComponentProps<typeof ListCard<T>>, 'nothing' | 'keyOf'> {
  readonly title: string
  readonly lead: string
  readonly query: UseQueryResult<readonly T[]>
  /** Refetches the list and other data after an item was added or removed. */
  readonly refresh: () => Promise<unknown>
  /** Title of the column with the items' names. */
  readonly heading?: string
  readonly nameOf: (row: T) => string
  /** Returns a text that is shown below an item's name, in a monospaced font. */
  readonly detailOf?: (row: T) => string
  readonly columns: readonly Column<T>[]
  readonly add: Adding
  readonly remove: Removing<T>
}

export function OwnedList<T>({
  title,
  refresh,
  heading = 'Name',
  nameOf,
  detailOf,
  columns,
  add: { text, look, send, ...dialog },
  remove,
  ...list
}: OwnedListProps<T>) {
  return (
    <ListCard
      {...list}
      title={title}
      label={title}
      create={
        <FormDialog
          {...dialog}
          trigger={open => <AddButton {...(look ? { look } : {})} text={text} onClick={open} />}
          send={async values => {
            await send(values)
            await refresh()
          }}
        />
      }
      columns={[
        {
          title: heading,
          cell: row => (
            <div className="min-w-0">
              <p className="font-medium wrap-anywhere">{nameOf(row)}</p>
              {detailOf && <Mono className="block max-w-48 truncate text-muted sm:max-w-md">{detailOf(row)}</Mono>}
            </div>
          ),
        },
        ...columns,
      ]}
      actionsOf={row => (
        <DestroyLink
          {...remove}
          name={nameOf(row)}
          send={async () => {
            await remove.send(row)
            await refresh()
          }}
        />
      )}
    />
  )
}
