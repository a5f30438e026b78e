/**
 * The WebSocket of a session in a VM, between the control plane and its clients.
 *
 * A binary message carries data: one byte for the stream, the position of the first byte as an unsigned 64-bit integer
 * (big endian), then the bytes. A text message is JSON with a `type`. Positions make every message repeatable, so a
 * client that connects again misses nothing and duplicates nothing.
 */
import { type Static, Type } from 'typebox'

/** Name of the WebSocket subprotocol (RFC 6455, 1.9). A client and a server with different versions do not connect. */
export const sessionSubprotocol = 'mote.session.v1'

/** Bytes of input that a client may send beyond what the server has confirmed. */
export const inputWindowBytes = 1 << 21
/** Maximum data of one binary message, in bytes. */
export const maxDataBytes = 1 << 16

/** Close codes of the WebSocket besides those of RFC 6455 (private use, 4000 to 4999). */
export const sessionClose = {
  /** Close code: the VM or its host does not respond. The client should connect again. */
  unreachable: 4503,
  /** Close code: the session no longer exists. */
  gone: 4404,
  /** Close code: another client reads the session now. */
  replaced: 4409,
} as const

export const streamNumber = { stdin: 0, stdout: 1, stderr: 2 } as const
export type StreamName = keyof typeof streamNumber
const streamNames = ['stdin', 'stdout', 'stderr'] as const

const Position = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const Cells = Type.Integer({ minimum: 0, maximum: 65_535 })

/** Linux numbers of the signals that a client can send. */
export const signalNumbers = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  KILL: 9,
  USR1: 10,
  USR2: 12,
  TERM: 15,
  CONT: 18,
  STOP: 19,
  TSTP: 20,
  WINCH: 28,
} as const
export type SignalName = keyof typeof signalNumbers
export const signalNames = Object.keys(signalNumbers) as [SignalName, ...SignalName[]]

export const SessionClientMessage = Type.Union([
  /**
   * Message of the client: it has processed the output before these positions. The server waits for this message before
   * it sends more.
   */
  Type.Object({ type: Type.Literal('ack'), stdout: Position, stderr: Position }),
  Type.Object({ type: Type.Literal('resize'), rows: Cells, columns: Cells }),
  Type.Object({ type: Type.Literal('signal'), signal: Type.Enum(signalNames) }),
  /** Message of the client: the input ends after the data that was sent before. */
  Type.Object({ type: Type.Literal('close_input') }),
  /** Message of the client: it has the whole output and the result, so the session can be removed. */
  Type.Object({ type: Type.Literal('done') }),
])
export type SessionClientMessage = Static<typeof SessionClientMessage>

export const SessionServerMessage = Type.Union([
  /**
   * First message of the server: the positions at which output begins, the bytes of input that the program has, and how
   * many more the client may send before they are confirmed.
   */
  Type.Object({
    type: Type.Literal('attached'),
    stdout: Position,
    stderr: Position,
    stdin: Position,
    inputWindow: Position,
  }),
  /** Message of the server: the program has received this many bytes of input. */
  Type.Object({ type: Type.Literal('received'), stdin: Position }),
  /** Message of the server: the program reads no more input. The server discards further input. */
  Type.Object({ type: Type.Literal('input_closed') }),
  /** Message of the server: the VM no longer retains this many bytes of output, which precede the next data. */
  Type.Object({ type: Type.Literal('lost'), stream: Type.Enum(['stdout', 'stderr']), bytes: Position }),
  /** Message of the server: the program has ended, and all its output was sent. */
  Type.Object({
    type: Type.Literal('end'),
    reason: Type.Enum(['exited', 'signaled']),
    /** Exit code of the program, or number of the signal that ended it. */
    code: Type.Integer({ minimum: 0, maximum: 255 }),
    stdout: Position,
    stderr: Position,
  }),
])
export type SessionServerMessage = Static<typeof SessionServerMessage>

/** Size of the header before the data of a message, in bytes. */
export const messageHeaderBytes = 9

/** Writes the header of a message into the free memory directly before the data of the message. */
export function encodeDataInPlace(stream: StreamName, position: number, data: Uint8Array): Uint8Array {
  const start = data.byteOffset - messageHeaderBytes
  const message = new Uint8Array(data.buffer, start, messageHeaderBytes + data.length)
  const header = new DataView(message.buffer, message.byteOffset, messageHeaderBytes)
  header.setUint8(0, streamNumber[stream])
  header.setBigUint64(1, BigInt(position))
  return message
}

/** Decodes a data message. Returns undefined for a message that is not valid. */
export function decodeData(
  message: Uint8Array,
): { readonly stream: StreamName; readonly position: number; readonly data: Uint8Array } | undefined {
  if (message.length < messageHeaderBytes || message.length > messageHeaderBytes + maxDataBytes) return undefined
  const header = new DataView(message.buffer, message.byteOffset, messageHeaderBytes)
  const stream = streamNames[header.getUint8(0)]
  const position = header.getBigUint64(1)
  if (stream === undefined || position > BigInt(Number.MAX_SAFE_INTEGER)) return undefined
  return { stream, position: Number(position), data: message.subarray(messageHeaderBytes) }
}
