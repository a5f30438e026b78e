/**
 * Runs a private LXD daemon, which has its own state directory and containers that never run, and is accessed through
 * its socket.
 */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Pool } from 'undici'
import { apart, startPeer } from './beside.ts'

export interface Lxd extends AsyncDisposable {
  readonly socketPath: string
  /** Creates empty containers named `<prefix>-0` and so on, `inFlight` at a time. @returns containers per second */
  create(prefix: string, count: number, inFlight: number): Promise<number>
  remove(prefix: string, count: number): Promise<void>
}

const inTurn = async (count: number, inFlight: number, act: (n: number) => Promise<unknown>) => {
  let next = 0
  const worker = async () => {
    while (next < count) await act(next++)
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
}

/** Starts LXD. @throws Error with the reason if it cannot run */
export async function startLxd(): Promise<Lxd> {
  await using cleanup = new AsyncDisposableStack()
  const dir = await startPeer(cleanup, {
    needs: ['lxd', 'unshare'],
    asRoot: true,
    // Run LXD in separate namespaces, so that the file systems that it mounts for containers disappear with it.
    command: dir => apart('LXD_DIR="$1" lxd --group root', dir),
    ready: dir => stat(join(dir, 'unix.socket')),
  })
  const socketPath = join(dir, 'unix.socket')
  const pool = new Pool('http://lxd', { socketPath, connections: 16 })
  cleanup.defer(() => pool.close())
  /** Sends the request and waits for its background operation. */
  const ask = async (method: 'POST' | 'PUT' | 'DELETE', path: string, body: object) => {
    const answer = await pool.request({ path, method, body: JSON.stringify(body) })
    const { error, operation } = (await answer.body.json()) as { error: string; operation?: string }
    if (answer.statusCode >= 400) throw new Error(`${method} ${path}: ${error}`)
    if (!operation) return
    const waited = await pool.request({ path: `${operation}/wait`, method: 'GET' })
    const { metadata } = (await waited.body.json()) as { metadata: { err: string } }
    if (metadata.err !== '') throw new Error(`${method} ${path}: ${metadata.err}`)
  }
  await ask('POST', '/1.0/storage-pools', { name: 'bench', driver: 'dir' })
  const devices = { root: { type: 'disk', path: '/', pool: 'bench' } }
  await ask('PUT', '/1.0/profiles/default', { devices })
  const all = cleanup.move()
  return {
    socketPath,
    async create(prefix, count, inFlight) {
      const began = performance.now()
      const source = { type: 'none' }
      await inTurn(count, inFlight, n => ask('POST', '/1.0/instances', { name: `${prefix}-${n}`, source }))
      return count / ((performance.now() - began) / 1000)
    },
    remove: (prefix, count) => inTurn(count, 4, n => ask('DELETE', `/1.0/instances/${prefix}-${n}`, {})),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
