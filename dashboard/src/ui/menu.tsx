import { DropdownMenu } from 'radix-ui'
import type { ReactNode } from 'react'
import { cx } from './cx.ts'

export function Menu({
  trigger,
  children,
  align = 'end',
}: {
  readonly trigger: ReactNode
  readonly children: ReactNode
  readonly align?: 'start' | 'end'
}) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={6}
          collisionPadding={8}
          className="z-40 max-h-[70vh] min-w-52 overflow-y-auto rounded-lg border border-line bg-raised p-1 shadow-(--shadow)"
        >
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

const itemLook =
  'flex w-full cursor-pointer items-center gap-2 rounded-md px-2 py-1.5 text-sm outline-none select-none data-highlighted:bg-hover'

/** An item of a menu. @param reason why the item is disabled */
export function MenuItem({
  onSelect,
  children,
  danger = false,
  reason,
}: {
  readonly onSelect: () => void
  readonly children: ReactNode
  readonly danger?: boolean
  readonly reason?: string | undefined
}) {
  return (
    <DropdownMenu.Item
      onSelect={event => (reason === undefined ? onSelect() : event.preventDefault())}
      aria-disabled={reason !== undefined || undefined}
      className={cx(itemLook, danger && 'text-bad', reason !== undefined && 'cursor-not-allowed!')}
    >
      <span className={cx('flex min-w-0 items-center gap-2', reason !== undefined && 'flex-wrap')}>
        {children}
        {reason !== undefined && <span className="w-full max-w-60 text-xs whitespace-normal text-muted">{reason}</span>}
      </span>
    </DropdownMenu.Item>
  )
}

export const MenuLabel = ({ children }: { readonly children: ReactNode }) => (
  <DropdownMenu.Label className="px-2 py-1.5 text-xs text-muted">{children}</DropdownMenu.Label>
)
export const MenuLine = () => <DropdownMenu.Separator className="my-1 h-px bg-line" />
