import type { Server } from 'node:http'
import type { Socket } from 'node:net'

const lookMs = 50

/**
 * Follows a server's connections so that it can be closed politely: requests under way get `drainMs`, connections that
 * wait for another request are closed as soon as they are idle, and so are those on which nothing was ever sent, which
 * Node counts as busy until its header time-out (browsers and undici keep such spares).
 * @returns what closes the connections; call it together with the server's own `close`
 */
export function trackConnections(server: Server): (drainMs: number, closed: Promise<unknown>) => Promise<void> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  return async (drainMs, closed) => {
    const closeIdle = () => {
      server.closeIdleConnections()
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
    }
    closeIdle()
    const looking = setInterval(closeIdle, lookMs)
    const cut = setTimeout(() => {
      for (const socket of sockets) socket.destroy()
    }, drainMs)
    await closed
    clearInterval(looking)
    clearTimeout(cut)
  }
}
