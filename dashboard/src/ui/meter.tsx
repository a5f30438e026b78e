import { cx } from './cx.ts'

/** A bar that shows usage relative to a limit; red from 90 %. */
export function Meter({
  label,
  value,
  max,
  text,
  bare = false,
}: {
  readonly label: string
  readonly value: number
  readonly max: number
  /** The value as text, such as `3 of 5`. */
  readonly text: string
  readonly bare?: boolean
}) {
  const share = max > 0 ? Math.min(1, value / max) : 0
  const tone = share >= 0.9 ? 'bg-bad-fill' : share >= 0.75 ? 'bg-warn' : 'bg-accent'
  return (
    <div className="min-w-0">
      {!bare && (
        <div className="mb-1 flex items-baseline justify-between gap-3 text-xs">
          <span className="text-muted">{label}</span>
          <span className="font-medium tabular-nums">{text}</span>
        </div>
      )}
      <div
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={max}
        aria-valuenow={Math.min(value, max)}
        aria-valuetext={text}
        className="h-1.5 overflow-hidden rounded-full bg-line"
      >
        <div className={cx('h-full rounded-full transition-[width]', tone)} style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  )
}
