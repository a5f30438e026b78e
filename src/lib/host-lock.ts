import { createHash } from 'node:crypto'
import { connect, createServer, type Server } from 'node:net'
import { hasCode } from './files.ts'

export interface HeldLock {
  release(): Promise<void>
}

/**
 * Takes a lock among all processes of this host (in one network namespace) by binding an abstract unix socket. The
 * kernel releases it when the holder dies, so there are no stale locks (unix(7), "abstract").
 * @returns undefined when another process holds the lock
 */
export async function tryHostLock(name: string): Promise<HeldLock | undefined> {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    waiting.add(socket)
    socket.on('close', () => waiting.delete(socket))
  })
  const waiting = new Set<{ destroy(): unknown }>()
  if (!(await listened(server, socketName(name)))) return undefined
  server.unref()
  return {
    release: () => {
      for (const socket of waiting) socket.destroy()
      return new Promise(resolve => server.close(() => resolve()))
    },
  }
}

/** Waits for the lock. A waiting process connects to the holder's socket, which closes when the lock is released. */
export async function hostLock(name: string, signal?: AbortSignal): Promise<HeldLock> {
  for (;;) {
    signal?.throwIfAborted()
    const held = await tryHostLock(name)
    if (held) return held
    await new Promise<void>(resolve => {
      const socket = connect(socketName(name), () => undefined)
      const stop = () => socket.destroy()
      signal?.addEventListener('abort', stop, { once: true })
      socket.on('error', () => undefined)
      socket.on('close', () => {
        signal?.removeEventListener('abort', stop)
        resolve()
      })
      socket.resume()
    })
  }
}

function socketName(name: string): string {
  return `\0mote-${createHash('sha256').update(name).digest('hex').slice(0, 40)}`
}

function listened(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    server.once('error', error => (hasCode(error, 'EADDRINUSE') ? resolve(false) : reject(error)))
    server.listen(path, () => resolve(true))
  })
}
