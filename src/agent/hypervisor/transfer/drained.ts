import { once } from 'node:events'
import type { Socket } from 'node:net'

/**
 * Resolves when the socket accepts more data or has closed. Removes its listeners from the socket, because one
 * migration waits thousands of times.
 */
export async function drained(socket: Socket): Promise<void> {
  const over = new AbortController()
  const wait = (event: string) => once(socket, event, { signal: over.signal }).catch(() => undefined)
  await Promise.race([wait('drain'), wait('close')])
  over.abort()
}
