import type { Socket } from 'node:net'
import { type ByteReader, byteReader } from '../transfer/bytes.ts'
import { drained } from '../transfer/drained.ts'

/**
 * Cloud Hypervisor's migration protocol, version 0 (vm-migration/src/protocol.rs, v53): a sequence of requests and
 * responses. A header has 16 bytes: command (two, little-endian), six for the command's own use, length (eight).
 */
export const commands = {
  start: 1,
  config: 2,
  state: 3,
  memory: 4,
  complete: 5,
  abandon: 6,
  completePaused: 8,
} as const

const headerBytes = 16
/** One entry of a memory table: guest address and length, eight bytes each. */
const rangeBytes = 16
const okStatus = 1

/** Maximum size of a VM's settings in a migration, which are a few KiB of JSON. */
const maxConfigBytes = 16 << 20

export interface Request {
  readonly command: number
  readonly header: Buffer
  /** Size of the request's payload, without its header. */
  readonly payloadBytes: number
}

export async function readRequest(from: ByteReader): Promise<Request> {
  const header = await from.read(headerBytes)
  return { command: header.readUInt16LE(0), header, payloadBytes: Number(header.readBigUInt64LE(8)) }
}

/** Forwards a request's payload and, after a memory table, the memory itself. */
export async function passPayload(
  { command, payloadBytes }: Request,
  from: ByteReader,
  send: (data: Buffer) => Promise<void>,
): Promise<void> {
  if (command !== commands.memory) {
    for await (const piece of from.pieces(payloadBytes)) await send(piece)
    return
  }
  const table = await from.read(payloadBytes)
  await send(table)
  let total = 0
  for (let at = 0; at + rangeBytes <= table.length; at += rangeBytes) total += Number(table.readBigUInt64LE(at + 8))
  for await (const piece of from.pieces(total)) await send(piece)
}

/** Forwards a request whose payload is the VM's settings, after `change` has modified them. */
export async function passConfig(
  { header, payloadBytes }: Request,
  from: ByteReader,
  send: (data: Buffer) => Promise<void>,
  change: (settings: string) => string,
): Promise<void> {
  if (payloadBytes > maxConfigBytes) throw new Error("the VM's settings are too large")
  const settings = Buffer.from(change((await from.read(payloadBytes)).toString('utf8')))
  const changed = Buffer.from(header)
  changed.writeBigUInt64LE(BigInt(settings.length), 8)
  await send(changed)
  await send(settings)
}

export interface Response {
  readonly ok: boolean
  readonly bytes: Buffer
}

export async function readResponse(from: ByteReader): Promise<Response> {
  const header = await from.read(headerBytes)
  const rest = await from.read(Number(header.readBigUInt64LE(8)))
  return { ok: header.readUInt16LE(0) === okStatus, bytes: Buffer.concat([header, rest]) }
}

/** A connection over which Cloud Hypervisor speaks this protocol. */
export interface Peer {
  readonly from: ByteReader
  send(data: Buffer): Promise<void>
  close(): void
}

export function peerOver(socket: Socket): Peer {
  socket.on('error', () => undefined)
  return {
    from: byteReader(chunksOf(socket)),
    async send(data) {
      if (socket.destroyed) throw new Error('Cloud Hypervisor closed the connection')
      if (!socket.write(data)) await drained(socket)
    },
    close: () => socket.destroy(),
  }
}

async function* chunksOf(socket: Socket): AsyncGenerator<Buffer> {
  for await (const chunk of socket) yield Buffer.from(chunk)
}
