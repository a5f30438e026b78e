/** A way to a server that is cut at a moment of the test's choice: from then on nothing gets through. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface Cut extends AsyncDisposable {
  readonly port: number
  /** True once the way was cut. */
  happened(): boolean
}

/**
 * @param to where the server listens: a port of loopback, or a socket in the file system
 * @param at cut as soon as a client sends this; the server does not get it any more
 */
export async function cutWhen(to: number | string, at: RegExp): Promise<Cut> {
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
    upstream.pipe(client)
    client.on('data', (chunk: Buffer) => {
      if (at.test(chunk.toString('latin1'))) cutNow()
      else upstream.write(chunk)
    })
  }).listen(0, '127.0.0.1')
  const cutNow = () => {
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
      if (!cut) cutNow()
    },
  }
}
