/** Small buttons of lists and cards. */
import { type LucideIcon, Plus, Trash2 } from 'lucide-react'
import type { ComponentProps } from 'react'
import { Button } from './button.tsx'
import { Destroy } from './dialog.tsx'

/** A button that opens the dialog with which an item is added to a list. */
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

/** A button with only an icon. @param label accessible name and tooltip, such as `Delete web` */
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

/** An icon button that opens a dialog, in which the user types the name of the resource before it is deleted. */
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

/** A text button that opens a dialog, in which the user types the name of the resource before it is deleted. */
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
