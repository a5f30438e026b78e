import { BusError } from './bus.ts'

export interface Limits {
  readonly subject: string
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** Signal that aborts when the bus closes. */
  readonly closing: AbortSignal
}

/** Returns the response, or rejects with BusError `timeout`, `aborted` or `closed`, whichever comes first. */
export async function withinLimits<T>(answer: Promise<T>, limits: Limits): Promise<T> {
  const { subject, timeoutMs, signal, closing } = limits
  const { promise: failed, reject } = Promise.withResolvers<never>()
  const onAbort = () =>
    reject(new BusError('aborted', `the request to ${subject} was aborted`, { cause: signal?.reason }))
  const onClose = () => reject(new BusError('closed', 'the bus was closed'))
  const timer = setTimeout(
    () => reject(new BusError('timeout', `no answer from ${subject} in ${timeoutMs} ms`)),
    timeoutMs,
  )
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort)
  closing.addEventListener('abort', onClose)
  try {
    return await Promise.race([answer, failed])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    closing.removeEventListener('abort', onClose)
  }
}

/**
 * Calls `stop` once, when the first of the signals aborts; at once if one already has. Returns a function that removes
 * the listeners.
 */
export function onFirstAbort(signals: readonly (AbortSignal | undefined)[], stop: () => void): () => void {
  const given = signals.filter(signal => signal !== undefined)
  const unhook = () => {
    for (const signal of given) signal.removeEventListener('abort', fire)
  }
  const fire = () => {
    unhook()
    stop()
  }
  for (const signal of given) signal.addEventListener('abort', fire)
  if (given.some(signal => signal.aborted)) fire()
  return unhook
}
