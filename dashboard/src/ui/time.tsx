import { useStore } from '../api/store.ts'
import { createStore } from '../api/store.ts'
import { ago, exactTime } from './format.ts'

/** One clock for all components, which updates relative times every 15 s. */
const now = createStore(new Date())
setInterval(() => now.set(new Date()), 15_000)

/** Shows a time relative to now, such as `5m ago`, with the exact time on hover. */
export function Ago({ at }: { readonly at: string | null | undefined }) {
  const current = useStore(now)
  if (!at) return <span className="text-faint">never</span>
  const date = new Date(at)
  return (
    <time dateTime={at} title={exactTime(date)} className="whitespace-nowrap">
      {ago(date, new Date(Math.max(current.getTime(), date.getTime() < Date.now() ? date.getTime() : 0)))}
    </time>
  )
}
