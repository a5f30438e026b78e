import { closeSync, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { sharedReads } from './shared-reads.ts'

/**
 * Connects to the unix socket `name` in a directory, even if its path exceeds the 107 bytes of a socket address: the
 * directory is addressed through /proc/self/fd. The peer may disconnect at any time; an error before the caller adds a
 * listener for errors only closes the socket.
 * @param options.sharesMemory the bytes of `data` events are only valid during the event, and the socket is paused at
 * first: call `resume`
 */
export function connectIn(
  dir: string,
  name: string,
  options: { readonly allowHalfOpen?: boolean; readonly sharesMemory?: boolean } = {},
): Promise<Socket> {
  const fd = openSync(dir, 'r')
  return new Promise<Socket>((resolve, reject) => {
    const socket: Socket = connect({
      path: `/proc/self/fd/${fd}/${name}`,
      allowHalfOpen: options.allowHalfOpen ?? false,
      ...(options.sharesMemory ? { onread: sharedReads(bytes => void socket.emit('data', bytes)) } : {}),
    })
    if (options.sharesMemory) socket.pause()
    socket.once('connect', () => {
      resolve(socket)
    })
    socket.on('error', reject)
  }).finally(() => closeSync(fd))
}
