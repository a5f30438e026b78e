import { closeSync, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { sharedReads } from './shared-reads.ts'

/**
 * Connects to the unix socket `name` in the directory, even if its path exceeds the 107 bytes of a socket address: the
 * directory is addressed through /proc/self/fd. The peer may end at any time, so an error of the open socket is not
 * thrown before the caller listens; the socket closes then.
 * @param options.sharesMemory bytes of `data` are valid only during the event, and the socket is paused: call `resume`
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
