/** Opens many event stream clients that only count events. */
import { type ClientRequest, request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { type Arrivals, arrivals } from './arrivals.ts'

export interface Readers extends Pick<Arrivals, 'until'> {
  close(): void
}

/**
 * Opens an event stream for each path, and counts `deployment.status` events. Resolves once every stream has received
 * its first event.
 */
export async function openReaders(origin: string, paths: readonly string[], token?: string): Promise<Readers> {
  const { take, until } = arrivals(paths.length, Buffer.from('event: deployment.status'))
  const requests: ClientRequest[] = []
  const open = (path: string, n: number) =>
    new Promise<void>((resolve, reject) => {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
      const asked = request(`${origin}${path}`, { headers, agent: false }, response => {
        if (response.statusCode !== 200) reject(new Error(`${path} answered ${response.statusCode}`))
        response.once('data', () => resolve())
        response.on('data', (chunk: Buffer) => take(n, chunk))
        response.on('error', () => undefined)
      })
      asked.on('error', reject).end()
      requests.push(asked)
    })
  // Open the streams in batches, because a thousand simultaneous connections overflow the server's listen queue.
  for (let from = 0; from < paths.length; from += 50) {
    await Promise.all(paths.slice(from, from + 50).map((path, n) => open(path, from + n)))
    await pause(1)
  }
  return { until, close: () => requests.forEach(asked => asked.destroy()) }
}
