import { Link, type LinkProps } from '@tanstack/react-router'
import type { ButtonHTMLAttributes, ReactNode } from 'react'
import { cx } from './cx.ts'
import { Tip } from './tip.tsx'

type Look = 'primary' | 'plain' | 'quiet' | 'danger'

const looks = {
  primary: 'bg-accent text-white hover:bg-accent-hover border-transparent shadow-sm',
  plain: 'bg-surface text-text border-line-strong hover:bg-hover',
  quiet: 'border-transparent text-muted hover:bg-hover hover:text-text',
  danger: 'bg-bad-fill text-white border-transparent hover:brightness-110',
} as const satisfies Record<Look, string>

const shape =
  'inline-flex items-center justify-center gap-1.5 rounded-md border text-sm font-medium whitespace-nowrap transition-colors select-none'
const sizes = { small: 'h-7 px-2', normal: 'h-8 px-3', icon: 'size-8', smallIcon: 'size-7' } as const

interface Common {
  readonly look?: Look
  readonly size?: keyof typeof sizes
  readonly className?: string | undefined
}

const classes = ({ look = 'plain', size = 'normal', className }: Common) =>
  cx(shape, sizes[size], looks[look], className)

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'className'>, Common {
  readonly busy?: boolean
  /** Disables the button and explains why; it stays reachable by keyboard, so that the reason can be read. */
  readonly reason?: string | undefined
}

export function Button({ look, size, className, busy = false, reason, children, onClick, ...rest }: ButtonProps) {
  const blocked = reason !== undefined
  const button = (
    <button
      type="button"
      {...rest}
      aria-disabled={blocked || busy || undefined}
      aria-busy={busy || undefined}
      onClick={blocked || busy ? event => event.preventDefault() : onClick}
      className={cx(
        classes({ ...(look ? { look } : {}), ...(size ? { size } : {}), className }),
        'disabled:opacity-50',
        blocked && 'cursor-not-allowed! opacity-50',
      )}
    >
      {busy && <Spinner />}
      {children}
    </button>
  )
  return blocked ? <Tip text={reason}>{button}</Tip> : button
}

export function Spinner() {
  return (
    <span
      aria-hidden="true"
      className="size-3.5 animate-spin rounded-full border-2 border-current border-r-transparent"
    />
  )
}

export function LinkButton({
  look,
  size,
  className,
  children,
  ...link
}: Omit<LinkProps, 'children'> & Common & { readonly children: ReactNode }) {
  return (
    <Link {...link} className={classes({ ...(look ? { look } : {}), ...(size ? { size } : {}), className })}>
      {children}
    </Link>
  )
}
