import type { LiveState } from '../api/live.ts'
import { cx } from './cx.ts'

const liveWords = {
  connecting: ['connecting', 'text-faint'],
  open: ['live', 'text-good'],
  waiting: ['connecting again', 'text-warn'],
  over: ['whole', 'text-muted'],
  refused: ['ended', 'text-bad'],
  paused: ['paused', 'text-warn'],
} as const satisfies Record<LiveState | 'paused', readonly [string, string]>

export function LiveDot({ state }: { readonly state: LiveState | 'paused' }) {
  const [word, look] = liveWords[state]
  return (
    <span role="status" className={cx('inline-flex items-center gap-1.5 text-xs font-medium', look)}>
      <span aria-hidden="true" className={cx('size-1.5 rounded-full bg-current', state === 'open' && 'pulse-dot')} />
      {word}
    </span>
  )
}
