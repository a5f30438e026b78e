/** A TCP server as the VM of a service. */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'

export interface EchoVm extends Disposable {
  /** As the gateway's routes name it. */
  readonly backend: { readonly vmId: string; readonly host: string; readonly port: number }
  /** Those that are open. */
  readonly sockets: ReadonlySet<Socket>
  /** Number of connections so far. */
  accepted(): number
}

let vms = 0

/** Answers each connection with the word, then echoes. */
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

/** What a client of the gateway has received so far; an unexpected end counts as an empty answer. */
export function received(socket: Duplex) {
  let seen = ''
  socket.on('data', (chunk: Buffer) => (seen += chunk.toString())).on('error', () => undefined)
  return { seen: () => seen, closed: new Promise<void>(resolve => socket.once('close', () => resolve())) }
}
