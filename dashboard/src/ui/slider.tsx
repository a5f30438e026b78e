import { Slider as Radix } from 'radix-ui'

export function Slider({
  label,
  value,
  min,
  max,
  step,
  text,
  onChange,
  disabled = false,
}: {
  readonly label: string
  readonly value: number
  readonly min: number
  readonly max: number
  readonly step: number
  /** The value as text, such as `512 MiB`. */
  readonly text: string
  readonly onChange: (value: number) => void
  readonly disabled?: boolean
}) {
  return (
    <Radix.Root
      value={[value]}
      min={min}
      max={max}
      step={step}
      disabled={disabled}
      onValueChange={([next]) => next !== undefined && onChange(next)}
      className="relative flex h-5 w-full touch-none items-center data-disabled:opacity-50"
    >
      <Radix.Track className="relative h-1.5 grow rounded-full bg-line-strong">
        <Radix.Range className="absolute h-full rounded-full bg-accent" />
      </Radix.Track>
      <Radix.Thumb
        aria-label={label}
        aria-valuetext={text}
        className="block size-4 rounded-full border border-line-strong bg-white shadow"
      />
    </Radix.Root>
  )
}
