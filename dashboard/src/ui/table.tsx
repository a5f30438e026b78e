import type { ReactNode } from 'react'
import { cx } from './cx.ts'
import { Ago } from './time.tsx'

interface Heading {
  readonly title: string
  /** Whether the column is hidden on narrow screens. */
  readonly wideOnly?: boolean
  readonly right?: boolean
  readonly className?: string
}

interface Cell<T> extends Heading {
  readonly cell: (row: T) => ReactNode
}

/** A column with a time; hidden on narrow screens. */
interface When<T> extends Heading {
  readonly at: (row: T) => string | null | undefined
}

export type Column<T> = Cell<T> | When<T>

export interface TableProps<T> {
  /** Accessible name of the table, for screen readers. */
  readonly label: string
  readonly rows: readonly T[]
  readonly columns: readonly Column<T>[]
  readonly keyOf: (row: T) => string
  /** Returns the buttons at the end of a row. */
  readonly actionsOf?: (row: T) => ReactNode
}

export function Table<T>({ label, rows, columns, keyOf, actionsOf }: TableProps<T>) {
  return (
    <div className="relative overflow-x-auto">
      <table className="w-full border-collapse tabular-nums" aria-label={label}>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            {columns.map(column => (
              <th key={column.title} scope="col" className={cx(look(column), 'h-9 font-medium whitespace-nowrap')}>
                {column.title}
              </th>
            ))}
            {actionsOf && (
              <th scope="col">
                <span className="sr-only">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={keyOf(row)} className="border-b border-line last:border-0 hover:bg-hover/50">
              {columns.map(column => (
                <td key={column.title} className={cx(look(column), 'py-2.5 align-middle')}>
                  <Value column={column} row={row} />
                </td>
              ))}
              {actionsOf && (
                <td className="px-4 py-2.5 text-right align-middle">
                  <span className="inline-flex gap-1">{actionsOf(row)}</span>
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const look = (column: Column<never>) =>
  cx(
    'px-4',
    (column.wideOnly || 'at' in column) && 'hidden md:table-cell',
    column.right ? 'text-right' : 'text-left',
    column.className,
  )

function Value<T>({ column, row }: { readonly column: Column<T>; readonly row: T }) {
  if ('cell' in column) return column.cell(row)
  return (
    <span className="text-muted">
      <Ago at={column.at(row)} />
    </span>
  )
}
