import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connectIn } from '../../lib/short-socket.ts'

/**
 * Connects to a guest's control and log ports. The returned streams may be paused (call `resume`), and the buffer of a
 * `data` event may be valid only during the event.
 */
export interface GuestPorts {
  control(): Promise<Duplex>
  log(): Promise<Duplex>
}

/** The two virtio-serial ports of a QEMU guest: sockets in the VM's directory. */
export function serialPorts(dir: string): GuestPorts {
  const open = (name: string) => connectIn(dir, name, { sharesMemory: true })
  return { control: () => open('ctl.sock'), log: () => open('log.sock') }
}

/** The vsock ports on which guest/ports.c listens. */
const vsockPort = { control: 1001, log: 1002 } as const
/** Timeout for the VMM's answer to `CONNECT`: a guest may be paused, or may not have loaded its vsock driver yet. */
const handshakeMs = 2_500
const maxAnswerChars = 64

/**
 * The vsock device of Firecracker and Cloud Hypervisor: a unix socket, to which the host writes `CONNECT <port>` and
 * the VMM answers `OK <host port>` (Firecracker docs/vsock.md; Cloud Hypervisor docs/vsock.md).
 */
export function vsockPorts(dir: string, name: string): GuestPorts {
  const connect = async (port: number) => {
    const socket = await connectIn(dir, name)
    socket.on('error', () => undefined)
    try {
      socket.write(`CONNECT ${port}\n`)
      await acknowledged(socket)
      return socket
    } catch (error) {
      socket.destroy()
      throw error
    }
  }
  return { control: () => connect(vsockPort.control), log: () => connect(vsockPort.log) }
}

/**
 * Reads the answer line and no byte after it, because the guest's data follows.
 * @throws Error if the answer is not `OK` or is late, or the connection closes.
 */
function acknowledged(socket: Socket): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let text = ''
  const onReadable = () => {
    for (let byte: unknown = socket.read(1); Buffer.isBuffer(byte); byte = socket.read(1)) {
      text += byte.toString('latin1')
      if (byte[0] !== 10 && text.length < maxAnswerChars) continue
      if (/^OK \d+\n$/.test(text)) resolve()
      else reject(new Error(`the VMM answered the connection to the vsock port with ${JSON.stringify(text)}`))
      return
    }
  }
  const onClose = () => reject(new Error('no program in the guest listens on the vsock port yet'))
  const timer = setTimeout(() => reject(new Error('the VMM did not connect to the vsock port in time')), handshakeMs)
  socket.on('readable', onReadable).on('close', onClose).on('end', onClose)
  return promise.finally(() => {
    clearTimeout(timer)
    socket.off('readable', onReadable).off('close', onClose).off('end', onClose)
  })
}
