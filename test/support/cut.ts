/** A TCP proxy that breaks or blocks all connections at a chosen moment, for good. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface Cut extends AsyncDisposable {
  readonly port: number
  /** Returns true once the proxy no longer forwards anything. */
  happened(): boolean
}

/**
 * Starts the proxy.
 * @param to address of the server: a port on loopback, or a Unix socket
 * @param at pattern of client data at which the proxy stops forwarding; the server does not receive these data
 * @param how `cut`: connections break, and new ones are refused; `hang`: connections remain open without a response
 */
export async function cutWhen(to: number | string, at: RegExp, how: 'cut' | 'hang' = 'cut'): Promise<Cut> {
  const sockets = new Set<Socket>()
  let cut = false
  const server = createServer(client => {
    const upstream = typeof to === 'number' ? connect(to, '127.0.0.1') : connect(to)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    upstream.on('data', (chunk: Buffer) => {
      if (!cut) client.write(chunk)
    })
    client.on('data', (chunk: Buffer) => {
      if (cut) return
      if (!at.test(chunk.toString('latin1'))) upstream.write(chunk)
      else if (how === 'cut') closeAll()
      else cut = true
    })
  }).listen(0, '127.0.0.1')
  const closeAll = () => {
    cut = true
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('BUG: a TCP server has a port')
  return {
    port: address.port,
    happened: () => cut,
    async [Symbol.asyncDispose]() {
      closeAll()
    },
  }
}
