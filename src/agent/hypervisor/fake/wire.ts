/** Migration of simulated guests: one JSON document over TCP. The target answers once the guest runs there. */
import { connect, createServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { Value } from 'typebox/value'
import { GuestState } from './guest.ts'

export interface GuestListener {
  readonly uri: string
  /** Resolves when the guest has arrived. `settle` reports to the source that the guest runs on this host. */
  readonly arrived: Promise<{ readonly guest: GuestState; settle(): void }>
  cancel(): Promise<void>
}

export async function listenForGuest(): Promise<GuestListener> {
  const { promise: arrived, resolve, reject } = Promise.withResolvers<{ guest: GuestState; settle(): void }>()
  // After `cancel`, no caller awaits the promise, so ignore its rejection.
  arrived.catch(() => undefined)
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket)
    socket.on('error', () => sockets.delete(socket))
    const settle = () => {
      socket.end('ok')
      server.close()
    }
    text(socket).then(sent => resolve({ guest: Value.Parse(GuestState, JSON.parse(sent)), settle }), reject)
  })
  await new Promise<void>((done, failed) => server.once('error', failed).listen(0, '127.0.0.1', done))
  server.unref()
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('BUG: a TCP server without a port')
  return {
    uri: `tcp:127.0.0.1:${address.port}`,
    arrived,
    cancel: async () => {
      reject(new Error('the target host stopped waiting for the VM'))
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

/** Sends the guest; resolves when it runs on the target. @throws Error if that failed or the signal aborted first */
export async function sendGuest(uri: string, guest: GuestState, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const port = Number(/^tcp:127\.0\.0\.1:(\d+)$/.exec(uri)?.[1])
  if (!port) throw new Error(`no simulated host listens at ${uri}`)
  const socket = connect({ port, host: '127.0.0.1', signal })
  const answer = text(socket)
  socket.end(JSON.stringify(guest))
  if ((await answer) !== 'ok') throw new Error('the target host ended the transfer before the VM ran there')
}
