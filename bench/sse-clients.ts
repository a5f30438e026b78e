/** Many readers of event streams that do nothing but count. */
import { type ClientRequest, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'

export interface Readers {
  /** Resolves when each has had so many `bench` events in all. */
  until(events: number): Promise<void>
  close(): void
}

const marker = Buffer.from('event: bench')

/** Opens a stream for each path; resolves when every one has had its first event. */
export async function openReaders(origin: string, paths: readonly string[], token?: string): Promise<Readers> {
  const seen = paths.map(() => 0)
  const requests: ClientRequest[] = []
  let waiting: { readonly events: number; readonly resolve: () => void } | undefined
  let left = 0
  const count = (n: number, events: number) => {
    const before = seen[n] ?? 0
    seen[n] = before + events
    if (waiting && before < waiting.events && before + events >= waiting.events && --left === 0) waiting.resolve()
  }
  const open = (path: string, n: number) =>
    new Promise<void>((resolve, reject) => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
      const asked = request(`${origin}${path}`, { headers, agent: false }, response => {
        if (response.statusCode !== 200) reject(new Error(`${path} answered ${response.statusCode}`))
        // A marker cut in two by a chunk is found with the end of the one before.
        let rest: Buffer = Buffer.alloc(0)
        response.once('data', () => resolve())
        response.on('data', (chunk: Buffer) => {
          const text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
          let events = 0
          let at = text.indexOf(marker)
          let end = 0
          while (at >= 0) {
            events++
            end = at + marker.length
            at = text.indexOf(marker, end)
          }
          rest = text.subarray(Math.max(end, text.length - marker.length + 1))
          if (events > 0) count(n, events)
        })
        response.on('error', () => undefined)
      })
      asked.on('error', reject).end()
      requests.push(asked)
    })
  // Not all at once: a thousand connections in one moment overflow the queue of the listening socket.
  for (let from = 0; from < paths.length; from += 50) {
    await Promise.all(paths.slice(from, from + 50).map((path, n) => open(path, from + n)))
    await pause(1)
  }
  return {
    async until(events) {
      left = seen.filter(count => count < events).length
      if (left === 0) return
      await new Promise<void>(resolve => (waiting = { events, resolve }))
      waiting = undefined
    },
    close: () => requests.forEach(asked => asked.destroy()),
  }
}
