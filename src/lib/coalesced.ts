import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Combines many calls into few runs of `act`: each call resolves after a run that started after the call. Runs do not
 * overlap, and start at least `apartMs` apart.
 */
export function coalesced(act: () => Promise<void>, apartMs: number): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  let beganMs = -Infinity
  const runNext = async () => {
    await running.catch(() => {})
    const pauseMs = beganMs + apartMs - performance.now()
    if (pauseMs > 0) await sleep(pauseMs)
    next = undefined
    beganMs = performance.now()
    running = act()
    await running
  }
  return () => (next ??= runNext())
}
