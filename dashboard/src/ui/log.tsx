import { type ComponentProps, lazy, Suspense } from 'react'
import { Skeleton } from './states.tsx'
import type { LogView } from './log-view.tsx'

/** The log view (12 KB), loaded only when a log is shown. */
const View = lazy(async () => ({ default: (await import('./log-view.tsx')).LogView }))

/** Live lines of a log; see log-view.tsx. */
export function Log(props: ComponentProps<typeof LogView>) {
  return (
    <Suspense fallback={<Skeleton className={props.className ?? ''} />}>
      <View {...props} />
    </Suspense>
  )
}
