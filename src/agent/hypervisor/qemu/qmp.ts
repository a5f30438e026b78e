import type { Socket } from 'node:net'
import { lineReader } from '../../../lib/lines.ts'
import { connectIn } from '../../../lib/short-socket.ts'
import { readPaced } from '../../guest/pace.ts'

/** A connection to QEMU's control protocol, QMP (docs/interop/qmp-spec.txt in QEMU 7.2). */
export interface Qmp {
  /** Runs a QMP command. @throws Error with QEMU's own description, or when the connection closes. */
  execute(command: string, args?: Readonly<Record<string, unknown>>): Promise<unknown>
  /** Resolves when QEMU has exited or closed the connection. */
  readonly closed: Promise<void>
  close(): void
}

export type QmpEventHandler = (name: string, data: Readonly<Record<string, unknown>>) => void

export async function connectQmp(dir: string, name: string, onEvent: QmpEventHandler = () => undefined): Promise<Qmp> {
  const socket = await connectIn(dir, name)
  const qmp = client(socket, onEvent)
  await qmp.execute('qmp_capabilities')
  return qmp
}

function client(socket: Socket, onEvent: QmpEventHandler): Qmp {
  const pending = new Map<number, PromiseWithResolvers<unknown>>()
  const closed = Promise.withResolvers<void>()
  let nextId = 1
  let gone = new Error('QEMU closed its control connection')
  const broken = (message: string, cause?: unknown) => {
    gone = new Error(`QEMU broke its protocol: ${message}`, { cause })
    socket.destroy()
  }
  const onLine = (line: string) => {
    if (socket.destroyed) return
    const message = parsed(line)
    if (message) receive(message, pending, onEvent)
    else broken('a message is not JSON')
  }
  readPaced(
    socket,
    lineReader(maxMessageBytes, onLine, () => broken('a message is too long')),
  )
  socket.on('error', () => undefined)
  socket.on('close', () => {
    for (const waiter of pending.values()) waiter.reject(gone)
    pending.clear()
    closed.resolve()
  })
  return {
    closed: closed.promise,
    close: () => socket.destroy(),
    execute(command, args) {
      const id = nextId++
      const waiter = Promise.withResolvers<unknown>()
      pending.set(id, waiter)
      if (!socket.writable) waiter.reject(gone)
      else socket.write(`${JSON.stringify({ execute: command, id, ...(args ? { arguments: args } : {}) })}\n`)
      return waiter.promise.finally(() => pending.delete(id))
    },
  }
}

/**
 * Maximum length of an answer. The longest valid one, the list of a VM's block devices, has about ten KiB. Parsing a
 * MiB of JSON may take a second.
 */
const maxMessageBytes = 256 << 10

/** Parses a line. Returns undefined if it is not JSON, because a guest may have compromised QEMU. */
function parsed(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return asObject(JSON.parse(line))
  } catch {
    return undefined
  }
}

const maxReasonChars = 1000

function receive(
  message: Readonly<Record<string, unknown>>,
  pending: ReadonlyMap<number, PromiseWithResolvers<unknown>>,
  onEvent: QmpEventHandler,
): void {
  if (typeof message.event === 'string') return onEvent(message.event, asObject(message.data))
  const waiter = typeof message.id === 'number' ? pending.get(message.id) : undefined
  if ('error' in message)
    waiter?.reject(new Error(`QEMU: ${String(asObject(message.error).desc).slice(0, maxReasonChars)}`))
  else waiter?.resolve(message.return)
}

/** Returns the value if it is a JSON object, otherwise an empty object. */
export function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
