/** Placeholders for data: loading, empty, missing, or an error. */
import { ApiFailure } from '@mote/client'
import type { UseQueryResult } from '@tanstack/react-query'
import { CircleAlert, type LucideIcon } from 'lucide-react'
import type { LinkProps } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { Button, LinkButton } from './button.tsx'
import { cx } from './cx.ts'

export const Skeleton = ({ className }: { readonly className?: string }) => (
  <div aria-hidden="true" className={cx('skeleton rounded-md', className)} />
)

export function Rows({ count = 4 }: { readonly count?: number }) {
  return (
    <div className="space-y-3 p-4" role="status" aria-label="Loading">
      {Array.from({ length: count }, (_, index) => (
        <div key={index} className="flex items-center gap-4">
          <Skeleton className="size-8 rounded-lg" />
          <Skeleton className="h-4 w-40" />
          <Skeleton className="ml-auto h-4 w-24" />
        </div>
      ))}
    </div>
  )
}

/** An empty list: explains the purpose of its items and how to create one. */
export function Empty({
  icon: Icon,
  title,
  children,
  action,
}: {
  readonly icon: LucideIcon
  readonly title: string
  readonly children?: ReactNode
  readonly action?: ReactNode
}) {
  return (
    <div className="flex flex-col items-center px-6 py-12 text-center">
      <span className="mb-3 grid size-10 place-items-center rounded-lg border border-line bg-hover text-muted">
        <Icon aria-hidden="true" size={18} />
      </span>
      <p className="font-semibold">{title}</p>
      {children && <p className="mt-1 max-w-md text-muted">{children}</p>}
      {action && <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  )
}

/** Shown instead of the page of a resource that does not exist. @param to path of the list of such resources */
export function Missing({
  icon,
  what,
  way = `All ${what}s`,
  ...all
}: {
  readonly icon: LucideIcon
  readonly what: string
  /** Text of the link to the list of such resources. */
  readonly way?: string
} & Pick<LinkProps, 'to' | 'params'>) {
  return (
    <Empty icon={icon} title={`No such ${what}`} action={<LinkButton {...all}>{way}</LinkButton>}>
      It may have been deleted, or belong to another project.
    </Empty>
  )
}

/** Whether the error says that a resource does not exist, or is not visible to this account. */
export const isMissing = (error: unknown) => error instanceof ApiFailure && error.status === 404

export function messageOf(error: unknown): string {
  if (error instanceof ApiFailure) return error.message
  if (error instanceof TypeError) return 'The server cannot be reached. Check the connection and try again.'
  return error instanceof Error ? error.message : String(error)
}

export function Problem({ error, retry }: { readonly error: unknown; readonly retry?: (() => void) | undefined }) {
  const requestId = error instanceof ApiFailure ? error.requestId : undefined
  return (
    <div role="alert" className="flex flex-col items-center px-6 py-10 text-center">
      <CircleAlert aria-hidden="true" className="mb-2 text-bad" size={22} />
      <p className="max-w-lg font-medium">{messageOf(error)}</p>
      {requestId && <p className="mt-1 font-mono text-xs text-faint">request {requestId}</p>}
      {retry && (
        <Button className="mt-4" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  )
}

/** Renders the data of a query; a skeleton while it loads, or its error. */
export function Loaded<T>({
  query,
  skeleton = <Rows />,
  children,
}: {
  readonly query: UseQueryResult<T>
  readonly skeleton?: ReactNode
  readonly children: (data: T) => ReactNode
}) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <Problem error={query.error} retry={() => void query.refetch()} />
  return skeleton
}

export function Notice({
  tone = 'info',
  children,
}: {
  readonly tone?: 'info' | 'warn' | 'bad' | 'good'
  readonly children: ReactNode
}) {
  const looks = {
    info: 'bg-info-soft text-info',
    warn: 'bg-warn-soft text-warn',
    bad: 'bg-bad-soft text-bad',
    good: 'bg-good-soft text-good',
  } as const
  return (
    <div
      role={tone === 'bad' ? 'alert' : 'status'}
      className={cx('rounded-md px-3 py-2 text-sm break-words first-letter:uppercase', looks[tone])}
    >
      {children}
    </div>
  )
}
