import { cx } from './cx.ts'

type Tone = 'good' | 'warn' | 'bad' | 'info' | 'calm'

const tones = {
  good: 'text-good bg-good-soft',
  warn: 'text-warn bg-warn-soft',
  bad: 'text-bad bg-bad-soft',
  info: 'text-info bg-info-soft',
  calm: 'text-muted bg-hover',
} as const satisfies Record<Tone, string>

/** All state names of the API with their tone (color). `moving`: whether the state is a transitional one. */
const words: Readonly<Record<string, { readonly tone: Tone; readonly moving?: true }>> = {
  running: { tone: 'good' },
  ready: { tone: 'good' },
  up: { tone: 'good' },
  verified: { tone: 'good' },
  degraded: { tone: 'warn' },
  unreachable: { tone: 'bad' },
  ok: { tone: 'good' },
  active: { tone: 'good' },
  connected: { tone: 'good' },
  trialing: { tone: 'good' },
  completed: { tone: 'good' },
  succeeded: { tone: 'good' },
  queued: { tone: 'info', moving: true },
  fetching: { tone: 'info', moving: true },
  pushing: { tone: 'info', moving: true },
  pending: { tone: 'info', moving: true },
  building: { tone: 'info', moving: true },
  scheduled: { tone: 'info', moving: true },
  starting: { tone: 'info', moving: true },
  deploying: { tone: 'info', moving: true },
  creating: { tone: 'info', moving: true },
  restoring: { tone: 'info', moving: true },
  restarting: { tone: 'info', moving: true },
  resuming: { tone: 'info', moving: true },
  migrating: { tone: 'info', moving: true },
  moving: { tone: 'info', moving: true },
  waiting: { tone: 'info' },
  staying: { tone: 'warn' },
  preparing: { tone: 'info', moving: true },
  copying: { tone: 'info', moving: true },
  switching: { tone: 'info', moving: true },
  clearing: { tone: 'info', moving: true },
  'warming up': { tone: 'info', moving: true },
  attaching: { tone: 'info', moving: true },
  detaching: { tone: 'warn', moving: true },
  pausing: { tone: 'warn', moving: true },
  draining: { tone: 'warn', moving: true },
  cancelling: { tone: 'warn', moving: true },
  stopping: { tone: 'warn', moving: true },
  deleting: { tone: 'warn', moving: true },
  paused: { tone: 'warn' },
  cordoned: { tone: 'warn' },
  suspected: { tone: 'warn' },
  stale: { tone: 'warn' },
  past_due: { tone: 'warn' },
  unhealthy: { tone: 'bad' },
  failed: { tone: 'bad' },
  lost: { tone: 'bad' },
  timed_out: { tone: 'bad' },
  unavailable: { tone: 'bad' },
  down: { tone: 'bad' },
}

export const isMoving = (status: string) => words[status]?.moving === true

export function Status({ status, className }: { readonly status: string; readonly className?: string }) {
  const { tone, moving } = words[status] ?? { tone: 'calm' as const }
  return (
    <span
      className={cx(
        'inline-flex h-5.5 items-center gap-1.5 rounded-full px-2 text-xs font-medium whitespace-nowrap w-fit',
        tones[tone],
        className,
      )}
    >
      <span aria-hidden="true" className={cx('size-1.5 rounded-full bg-current', moving && 'pulse-dot')} />
      <span className="inline-block first-letter:uppercase">{status.replaceAll('_', ' ')}</span>
    </span>
  )
}

export function Badge({ tone = 'calm', children }: { readonly tone?: Tone; readonly children: string }) {
  return (
    <span className={cx('inline-flex h-5 items-center rounded px-1.5 text-xs font-medium', tones[tone])}>
      {children}
    </span>
  )
}
