import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { peerOver } from '../cloud-hypervisor/protocol.ts'
import { wireOver } from './wire.ts'

/** Opens a TCP connection and returns both ends. */
async function pair(): Promise<{ near: Socket; far: Socket } & Disposable> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const near = connect(typeof address === 'object' && address ? address.port : 0, '127.0.0.1')
  const [far] = await once(server, 'connection')
  server.close()
  return { near, far, [Symbol.dispose]: () => [near, far].forEach(socket => socket.destroy()) }
}

const senders = {
  wire: (socket: Socket) => wireOver(socket).tunnel,
  'the protocol of Cloud Hypervisor': (socket: Socket) => peerOver(socket).send,
}

test.each(Object.entries(senders))(
  '%s waits until a slow reader has read, and removes its listeners from the socket',
  async (_, sender) => {
    using ends = await pair()
    const send = sender(ends.near)
    const before = ends.near.listenerCount('close') + ends.near.listenerCount('error')
    let received = 0
    ends.far.on('data', data => {
      received += data.length
      ends.far.pause()
      setImmediate(() => ends.far.resume())
    })
    const data = Buffer.alloc(1 << 20)
    for (let n = 0; n < 30; n++) await send(data)
    expect(ends.near.listenerCount('close') + ends.near.listenerCount('error')).toBe(before)
    expect(received).toBeGreaterThan(10 << 20)
  },
)
