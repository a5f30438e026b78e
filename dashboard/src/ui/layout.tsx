import type { ReactNode } from 'react'
import { cx } from './cx.ts'

export function Page({
  title,
  lead,
  actions,
  children,
  wide = false,
}: {
  readonly title: ReactNode
  readonly lead?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
  readonly wide?: boolean
}) {
  return (
    <div className={cx('mx-auto w-full px-4 py-6 md:px-8', wide ? 'max-w-[1400px]' : 'max-w-[1080px]')}>
      <header className="mb-6 flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h1 className="text-xl font-semibold tracking-tight">{title}</h1>
          {lead && <p className="mt-1 max-w-prose text-muted">{lead}</p>}
        </div>
        {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

export function Card({
  title,
  lead,
  actions,
  children,
  flush = false,
  danger = false,
  className,
}: {
  readonly title?: ReactNode
  readonly lead?: ReactNode
  readonly actions?: ReactNode
  readonly children?: ReactNode
  /** Whether the card's content has no padding, as for tables and logs. */
  readonly flush?: boolean
  /** Whether the card contains destructive operations, such as a deletion. */
  readonly danger?: boolean
  readonly className?: string
}) {
  return (
    <section
      className={cx('min-w-0 rounded-lg border bg-surface', danger ? 'border-bad/35' : 'border-line', className)}
    >
      {title && (
        <header className="flex flex-wrap items-center justify-between gap-x-3 gap-y-2 border-b border-line px-4 py-3">
          <div className="min-w-0">
            <h2 className="text-sm font-semibold">{title}</h2>
            {lead && <p className="text-xs text-muted">{lead}</p>}
          </div>
          {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
        </header>
      )}
      <div className={flush ? '' : 'p-4'}>{children}</div>
    </section>
  )
}

/** Shows a name and its value, one above the other. @param wide spans two columns, for long values */
export function Fact({
  name,
  wide = false,
  children,
}: {
  readonly name: string
  readonly wide?: boolean
  readonly children: ReactNode
}) {
  return (
    <div className={cx('min-w-0', wide && 'col-span-2')}>
      <dt className="text-xs text-muted">{name}</dt>
      <dd className="mt-0.5 min-w-0 font-medium tabular-nums wrap-anywhere">{children}</dd>
    </div>
  )
}

export function Facts({ children }: { readonly children: ReactNode }) {
  return <dl className="grid grid-cols-2 gap-x-6 gap-y-4 sm:grid-cols-3 lg:grid-cols-4">{children}</dl>
}

export function Mono({ children, className }: { readonly children: ReactNode; readonly className?: string }) {
  return <span className={cx('font-mono text-xs', className)}>{children}</span>
}
