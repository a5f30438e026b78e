/** A proxy to a server that a test can cut or block at a chosen moment; afterwards nothing passes. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface Cut extends AsyncDisposable {
  readonly port: number
  /** True once nothing passes any more. */
  happened(): boolean
}

/**
 * @param to address of the server: a port on loopback, or a unix socket
 * @param at the cut happens when a client sends data that matches, which the server no longer receives
 * @param how `cut`: connections break, and new ones are refused. `hang`: connections stay open without answers.
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
