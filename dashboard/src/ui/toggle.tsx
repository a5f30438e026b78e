import { Switch } from 'radix-ui'
import { useId } from 'react'

export function Toggle({
  label,
  hint,
  checked,
  onChange,
}: {
  readonly label: string
  readonly hint?: string
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
}) {
  const id = useId()
  return (
    <div className="flex items-center justify-between gap-4">
      <div>
        <label htmlFor={id} className="font-medium">
          {label}
        </label>
        {hint && (
          <p id={`${id}-hint`} className="text-xs text-muted">
            {hint}
          </p>
        )}
      </div>
      <Switch.Root
        id={id}
        checked={checked}
        onCheckedChange={onChange}
        aria-describedby={hint ? `${id}-hint` : undefined}
        className="h-5 w-9 shrink-0 rounded-full bg-line-strong p-0.5 transition-colors data-[state=checked]:bg-accent"
      >
        <Switch.Thumb className="block size-4 rounded-full bg-white shadow transition-transform data-[state=checked]:translate-x-4" />
      </Switch.Root>
    </div>
  )
}
