/** The small buttons of lists and cards. */
import { type LucideIcon, Plus, Trash2 } from 'lucide-react'
import type { ComponentProps } from 'react'
import { Button } from './button.tsx'
import { Destroy } from './dialog.tsx'

/** Opens the dialog that adds something to a list. */
export function AddButton({
  text,
  icon: Icon = Plus,
  ...button
}: Pick<ComponentProps<typeof Button>, 'look' | 'onClick' | 'reason'> & {
  readonly text: string
  readonly icon?: LucideIcon
}) {
  return (
    <Button size="small" {...button}>
      <Icon aria-hidden="true" size={13} /> {text}
    </Button>
  )
}

/** @param label what it does to what, for those who cannot see the icon, and on hover */
export function IconButton({
  icon: Icon,
  label,
  ...button
}: Pick<ComponentProps<typeof Button>, 'onClick' | 'reason'> & { readonly icon: LucideIcon; readonly label: string }) {
  return (
    <Button look="quiet" size="smallIcon" aria-label={label} title={label} {...button}>
      <Icon aria-hidden="true" size={14} />
    </Button>
  )
}

type RowDestroy = Omit<ComponentProps<typeof Destroy>, 'trigger'> & { readonly reason?: string | undefined }

/** Asks for the name; an icon that opens it. */
export function DestroyIcon({
  icon = Trash2,
  label,
  reason,
  ...destroy
}: RowDestroy & { readonly icon?: LucideIcon; readonly label?: string }) {
  const named = label ?? `${destroy.verb ?? 'Delete'} ${destroy.name}`
  return (
    <Destroy {...destroy} trigger={open => <IconButton icon={icon} label={named} reason={reason} onClick={open} />} />
  )
}

/** Asks for the name; the verb opens it. */
export function DestroyLink({ reason, ...destroy }: RowDestroy & { readonly verb: string }) {
  const label = `${destroy.verb} ${destroy.name}`
  return (
    <Destroy
      {...destroy}
      trigger={open => (
        <Button look="quiet" size="small" reason={reason} onClick={open} aria-label={label}>
          {destroy.verb}
        </Button>
      )}
    />
  )
}
