import { X } from 'lucide-react'
import { createStore, useStore } from '../api/store.ts'
import { Button } from './button.tsx'
import { cx } from './cx.ts'

interface Toast {
  readonly tone: 'good' | 'bad' | 'info'
  readonly title: string
  readonly body?: string
  readonly open?: () => void
}

const shown = createStore<readonly (Toast & { readonly id: number })[]>([])
/** How long a toast message stays: long enough to read it, also with a screen reader. */
const lifeMs = 7000
const most = 4
let count = 0

export function toast(message: Toast): void {
  const id = ++count
  shown.set([...shown.get(), { ...message, id }].slice(-most))
  setTimeout(() => remove(id), lifeMs)
}

const remove = (id: number) => shown.set(shown.get().filter(one => one.id !== id))

const bars = { good: 'bg-good', bad: 'bg-bad', info: 'bg-accent' } as const

export function Toasts() {
  const toasts = useStore(shown)
  return (
    <section
      aria-label="Messages"
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 left-4 z-50 flex flex-col items-end gap-2"
    >
      {toasts.map(({ id, tone, title, body, open }) => (
        <div
          key={id}
          className="pointer-events-auto flex w-full max-w-sm items-start gap-3 rounded-lg border border-line bg-raised p-3 shadow-(--shadow)"
        >
          <span aria-hidden="true" className={cx('mt-0.5 w-1 self-stretch rounded-full', bars[tone])} />
          <div className="min-w-0 flex-1">
            <p className="font-medium">{title}</p>
            {body && <p className="line-clamp-3 text-muted">{body}</p>}
            {open && (
              <button type="button" onClick={open} className="mt-1 font-medium text-accent-text hover:underline">
                Show
              </button>
            )}
          </div>
          <Button look="quiet" size="smallIcon" aria-label="Dismiss" onClick={() => remove(id)}>
            <X aria-hidden="true" size={14} />
          </Button>
        </div>
      ))}
    </section>
  )
}
