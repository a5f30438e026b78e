/** A TCP proxy whose open connections a test can break at any time. It keeps accepting new ones. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export interface FlakyProxy extends AsyncDisposable {
  readonly port: number
  /** Returns the number of connections so far. */
  connections(): number
  /** Returns the number of bytes that were sent to clients so far. */
  passedBytes(): number
  breakAll(): void
}

/** Starts the proxy. @param to returns the current port of the server on loopback */
export async function flakyProxy(to: () => number): Promise<FlakyProxy> {
  const open = new Set<Socket>()
  let connections = 0
  let passedBytes = 0
  const server = createServer(client => {
    connections++
    const upstream = connect(to(), '127.0.0.1')
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.on('error', end)
      socket.on('close', () => {
        open.delete(socket)
        end()
      })
    }
    upstream.on('data', chunk => {
      passedBytes += chunk.length
    })
    client.pipe(upstream).pipe(client)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('BUG: a TCP server has a port')
  const breakAll = () => {
    for (const socket of open) socket.destroy()
  }
  return {
    port: address.port,
    connections: () => connections,
    passedBytes: () => passedBytes,
    breakAll,
    async [Symbol.asyncDispose]() {
      breakAll()
      server.close()
    },
  }
}
