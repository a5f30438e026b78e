import { Tooltip } from 'radix-ui'
import type { ReactNode } from 'react'

/** A tooltip, which appears on hover and on focus. */
export function Tip({ text, children }: { readonly text: string; readonly children: ReactNode }) {
  return (
    <Tooltip.Root delayDuration={250}>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content
          sideOffset={6}
          className="z-50 max-w-72 rounded-md border border-line bg-raised px-2.5 py-1.5 text-xs text-text shadow-(--shadow)"
        >
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}

export const TipProvider = Tooltip.Provider
