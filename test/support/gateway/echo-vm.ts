/** A TCP server that stands in for a VM behind a TCP service. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'

export interface EchoVm extends Disposable {
  /** The server's entry in the gateway's routes. */
  readonly backend: { readonly vmId: string; readonly host: string; readonly port: number }
  /** Sockets of the open connections. */
  readonly sockets: ReadonlySet<Socket>
  /** Number of connections so far. */
  accepted(): number
}

let vms = 0

/** Starts the server, which sends `word` on each connection, and then echoes what it receives. */
export async function echoVm(word: string): Promise<EchoVm> {
  const sockets = new Set<Socket>()
  let accepted = 0
  const server = createServer({ allowHalfOpen: true }, socket => {
    accepted++
    sockets.add(socket)
    socket.on('error', () => socket.destroy()).once('close', () => sockets.delete(socket))
    socket.write(`${word} `)
    socket.pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    backend: { vmId: `echo-${++vms}`, host: '127.0.0.1', port: (server.address() as AddressInfo).port },
    sockets,
    accepted: () => accepted,
    [Symbol.dispose]() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Returns what a client of the gateway has received so far, and a promise for the end of its connection. */
export function received(socket: Duplex) {
  let seen = ''
  socket.on('data', (chunk: Buffer) => (seen += chunk.toString())).on('error', () => undefined)
  return { seen: () => seen, closed: new Promise<void>(resolve => socket.once('close', () => resolve())) }
}
