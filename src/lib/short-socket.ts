import { closeSync, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'

/**
 * Connects to the unix socket `name` in the directory, even if its path exceeds the 107 bytes of a socket address: the
 * directory is addressed through /proc/self/fd. The peer may end at any time, so an error of the open socket is not
 * thrown before the caller listens; the socket closes then.
 */
export function connectIn(
  dir: string,
  name: string,
  options: { readonly allowHalfOpen?: boolean } = {},
): Promise<Socket> {
  const fd = openSync(dir, 'r')
  return new Promise<Socket>((resolve, reject) => {
    const socket = connect({ path: `/proc/self/fd/${fd}/${name}`, allowHalfOpen: options.allowHalfOpen ?? false })
    socket.once('connect', () => {
      resolve(socket)
    })
    socket.on('error', reject)
  }).finally(() => closeSync(fd))
}
