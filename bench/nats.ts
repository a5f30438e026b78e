/**
 * Runs a separate nats-server with subscribers that only count messages. The benchmark speaks its text protocol
 * itself, because a client library would add overhead.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { arrivals } from './arrivals.ts'
import { freePort, startPeer } from './beside.ts'
import type { Readers } from './sse-clients.ts'

export interface Nats extends AsyncDisposable {
  /** Opens this many connections with one subscription each, all to the same subject. */
  subscribe(count: number): Promise<Readers>
  /** Publishes this many messages with this payload in one write. */
  publish(count: number, payload: string): void
}

const greeting = 'CONNECT {"verbose":false,"pedantic":false}\r\n'

/** Starts nats-server. @throws Error with the reason if it cannot run */
export async function startNats(): Promise<Nats> {
  await using cleanup = new AsyncDisposableStack()
  const port = await freePort()
  const open = async (more: string): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'data')
    socket.setNoDelay(true).write(`${greeting}${more}PING\r\n`)
    // Wait for PONG, which means that the server has processed everything that was sent before PING.
    await once(socket, 'data')
    return socket
  }
  await startPeer(cleanup, {
    needs: ['nats-server'],
    command: () => ['nats-server', '--addr', '127.0.0.1', '--port', String(port)],
    ready: async () => void (await open('')).destroy(),
  })
  const publisher = await open('')
  cleanup.defer(() => void publisher.destroy())
  const all = cleanup.move()
  return {
    async subscribe(count) {
      const { take, until } = arrivals(count, Buffer.from('MSG bench '))
      const sockets: Socket[] = []
      for (let n = 0; n < count; n++) {
        const socket = await open('SUB bench 1\r\n')
        socket.on('data', (chunk: Buffer) => take(n, chunk))
        sockets.push(socket)
      }
      return { until, close: () => sockets.forEach(socket => socket.destroy()) }
    },
    publish(count, payload) {
      publisher.write(`PUB bench ${Buffer.byteLength(payload)}\r\n${payload}\r\n`.repeat(count))
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
