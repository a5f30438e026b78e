/**
 * Event streams for components: open while the page is visible, and resumed from the last event when it becomes visible
 * again.
 */
import type { StreamEvent, StreamOptions } from '@mote/client'
import { useEffect, useRef, useState } from 'react'

export type LiveState = 'connecting' | 'open' | 'waiting' | 'refused' | 'over'

/**
 * Keeps a stream open while the page is visible. A browser limits HTTP/1.1 to six connections per server over all tabs,
 * so a hidden tab holds none.
 * @param key identifies the stream: a new key opens another one, undefined opens none
 * @param open starts the stream
 */
export function useStream<Event extends StreamEvent>(
  key: string | undefined,
  open: (options: StreamOptions) => AsyncGenerator<Event>,
  onEvent: (event: Event) => void,
): { readonly state: LiveState; readonly error: unknown } {
  const [state, setState] = useState<LiveState>('connecting')
  const [error, setError] = useState<unknown>()
  const latest = useRef({ open, onEvent })
  latest.current = { open, onEvent }

  useEffect(() => {
    if (key === undefined) return
    let lastEventId: string | undefined
    let stop: AbortController | undefined
    let isOver = false
    const read = async (signal: AbortSignal) => {
      try {
        for await (const event of latest.current.open({ signal, lastEventId, onState: setState })) {
          lastEventId = event.id ?? lastEventId
          if (!signal.aborted) latest.current.onEvent(event)
        }
        if (signal.aborted) return
        isOver = true
        setState('over')
      } catch (cause) {
        if (signal.aborted) return
        setError(cause)
        setState('refused')
      }
    }
    const follow = () => {
      if (isOver) return
      if (document.visibilityState === 'hidden') return stop?.abort()
      if (stop && !stop.signal.aborted) return
      stop = new AbortController()
      setState('connecting')
      setError(undefined)
      void read(stop.signal)
    }
    follow()
    document.addEventListener('visibilitychange', follow)
    return () => {
      document.removeEventListener('visibilitychange', follow)
      stop?.abort()
    }
  }, [key])
  return { state, error }
}
