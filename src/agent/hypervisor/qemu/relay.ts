/**
 * QEMU has no network of its own, so what it sends to another host goes through the agent: between a unix socket in its
 * run directory and TCP. It ends with the agent; a move that is under way then fails, and the guest goes on where it was.
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
  /** Takes no more connections; those that are joined go on until one side ends them. */
  close(): void
}

/** From a TCP port (any that is free) of `host` to the socket `name` on which QEMU listens. */
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
 * From the socket `name`, to which QEMU connects, to a TCP port.
 * @param gate where to stop reading from QEMU, which then can write no more than its socket holds
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
    // A socket's path holds 107 bytes.
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

/** What the one says the other hears, until both have ended; what breaks one breaks both. */
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
