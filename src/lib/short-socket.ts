import { closeSync, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'

/**
 * Connects to the unix socket `name` in the directory, even if its path exceeds the 107 bytes of a socket address: the
 * directory is addressed through /proc/self/fd.
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
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
  }).finally(() => closeSync(fd))
}
