import type { ReactNode } from 'react'
import { cx } from './cx.ts'

export interface Column<T> {
  readonly title: string
  readonly cell: (row: T) => ReactNode
  /** Left out where there is little room. */
  readonly wideOnly?: boolean
  readonly right?: boolean
  readonly className?: string
}

/** @param label what the table is, for those who cannot see it */
export function Table<T>({
  label,
  rows,
  columns,
  keyOf,
}: {
  readonly label: string
  readonly rows: readonly T[]
  readonly columns: readonly Column<T>[]
  readonly keyOf: (row: T) => string
}) {
  const look = (column: Column<T>) =>
    cx('px-4', column.wideOnly && 'hidden md:table-cell', column.right ? 'text-right' : 'text-left', column.className)
  return (
    <div className="relative overflow-x-auto">
      <table className="w-full border-collapse tabular-nums" aria-label={label}>
        <thead>
          <tr className="border-b border-line text-xs text-muted">
            {columns.map(column => (
              <th key={column.title} scope="col" className={cx(look(column), 'h-9 font-medium whitespace-nowrap')}>
                {column.title.startsWith('_') ? <span className="sr-only">{column.title.slice(1)}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={keyOf(row)} className="border-b border-line last:border-0 hover:bg-hover/50">
              {columns.map(column => (
                <td key={column.title} className={cx(look(column), 'py-2.5 align-middle')}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
