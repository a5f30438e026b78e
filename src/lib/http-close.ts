import type { Server } from 'node:http'
import type { Socket } from 'node:net'

const lookMs = 50

/**
 * Tracks a server's connections, so that it can be closed gracefully: pending requests get `drainMs`, and keep-alive
 * connections are closed as soon as they are idle. Connections on which nothing was ever sent are also closed. Browsers
 * and undici open such connections as spares, and Node counts them as busy until its header timeout.
 * @returns a function that closes the connections; call it together with the server's own `close`
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
