import { type ComponentProps, lazy, Suspense } from 'react'
import { Skeleton } from './states.tsx'
import type { LogView } from './log-view.tsx'

/** Loaded lazily: 12 KB that the surrounding page does not need. */
const View = lazy(async () => ({ default: (await import('./log-view.tsx')).LogView }))

/** Live lines of a log; see log-view.tsx. */
export function Log(props: ComponentProps<typeof LogView>) {
  return (
    <Suspense fallback={<Skeleton className={props.className ?? ''} />}>
      <View {...props} />
    </Suspense>
  )
}
