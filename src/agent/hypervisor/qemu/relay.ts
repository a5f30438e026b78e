/**
 * Relays between a unix socket in QEMU's run directory and TCP, because QEMU has no network access. A relay stops with
 * the agent; a migration in progress then fails, and the guest keeps running on the source.
 */
import { closeSync, openSync } from 'node:fs'
import { chown, rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { connectIn } from '../../../lib/short-socket.ts'
import type { VmUser } from '../isolation.ts'
import type { Gate } from './gate.ts'

export interface Relay {
  /** Accepts no new connections. Open connections continue until one side closes them. */
  close(): void
}

/** Relays data from a free TCP port of `host` to the socket `name`, on which QEMU listens. */
export async function relayIn(host: string, runDir: string, name: string): Promise<Relay & { readonly port: number }> {
  const server = createServer({ allowHalfOpen: true }, outside => {
    connectIn(runDir, name, { allowHalfOpen: true }).then(
      qemu => connectBoth(outside, qemu),
      () => outside.destroy(),
    )
  })
  await listening(server, () => server.listen(0, host))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('BUG: a TCP server has a port')
  return { port: address.port, close: () => void server.close() }
}

/**
 * Relays data from the socket `name`, to which QEMU connects, to a TCP port.
 * @param gate decides when the agent stops reading from QEMU, which then can only fill its socket buffer
 */
export async function relayOut(
  runDir: string,
  name: string,
  user: VmUser | undefined,
  to: { readonly host: string; readonly port: number },
  gate?: Gate,
): Promise<Relay> {
  const path = join(runDir, name)
  await rm(path, { force: true })
  const waiting = new Set<() => void>()
  const server = createServer({ allowHalfOpen: true }, qemu => {
    const outside = connect({ ...to, allowHalfOpen: true })
    const destroy = () => {
      waiting.delete(destroy)
      qemu.destroy()
      outside.destroy()
    }
    waiting.add(destroy)
    const join = () => waiting.delete(destroy) && connectBoth(qemu, outside)
    const pass = gate ? () => gate.pass(qemu, outside).then(join, destroy) : join
    outside.on('error', destroy).once('connect', () => void pass())
    qemu.on('error', destroy)
  })
  const fd = openSync(runDir, 'r')
  try {
    // Listens through /proc/self/fd, because a socket path is limited to 107 bytes.
    await listening(server, () => server.listen(`/proc/self/fd/${fd}/${name}`))
  } finally {
    closeSync(fd)
  }
  if (user) await chown(path, user.uid, user.gid)
  return {
    close() {
      server.close()
      for (const destroy of waiting) destroy()
      void rm(path, { force: true })
    },
  }
}

/** Relays data between two sockets in both directions. If one of them has an error, both are destroyed. */
function connectBoth(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const)
    pipeline(from, to).catch(() => {
      one.destroy()
      other.destroy()
    })
}

function listening(server: Server, listen: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).once('listening', resolve)
    listen()
  })
}
