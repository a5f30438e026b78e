/**
 * Binary encoding, without base64, of the `vm.session` messages that carry input or output. A message consists of the
 * length of its head (32 bits, big endian), the head in JSON, and the data.
 */
import { type Static, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { Value } from 'typebox/value'
import { takeBytes } from '../../lib/buffer-pool.ts'
import { maxDataBytes, messageHeaderBytes } from '../session-stream.ts'
import { maxInputBytes, SessionAnswer, SessionInputAt } from './session.ts'

/** Maximum data per stream in one reply to a `read`: a bus message has at most 1 MiB. */
export const maxReadBytes = 3 << 17

type ReadAnswer = Extract<SessionAnswer, { action: 'read' }>
type Part = ReadAnswer['parts'][number]

export type OutputPart = Omit<Part, 'data'> & { readonly data: Uint8Array }

/** Reply to a `read` request, with binary data instead of base64. */
export interface SessionOutput {
  /**
   * In a decoded message, each part has at most 64 KiB of data, with free space before it for the header of a WebSocket
   * message (session-stream.ts). All parts share the memory of the decoded message.
   */
  readonly parts: readonly OutputPart[]
  readonly end: ReadAnswer['end']
  /** Number of bytes of output that the VM sends before it waits for an acknowledgment. */
  readonly windowBytes: number
}

/** An `input` request, with binary data instead of base64. */
export interface SessionInput {
  readonly vmId: string
  readonly sessionId: string
  readonly offset: number
  readonly data: Uint8Array
}

const headBytes = 4
const maxHeadBytes = 4096

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const OutputHead = Type.Object({
  parts: Type.Array(
    Type.Object({ stream: Type.Enum(['stdout', 'stderr']), offset: Count, lostBytes: Count, bytes: Count }),
    { maxItems: 2 * Math.ceil(maxReadBytes / maxDataBytes) },
  ),
  end: SessionAnswer.anyOf[1].properties.end,
  windowBytes: Count,
})
const outputHead = Compile(OutputHead)

/**
 * Encodes a reply with output. Once the message is sent, its memory may be returned to the pool (lib/buffer-pool.ts).
 */
export function encodeOutput({ parts, end, windowBytes }: SessionOutput): Uint8Array {
  const pieces = parts.flatMap(piecesOf)
  const heads = pieces.map(({ stream, offset, lostBytes, data }) => ({ stream, offset, lostBytes, bytes: data.length }))
  const head = { parts: heads, end, windowBytes } satisfies Static<typeof OutputHead>
  const room = new Uint8Array(messageHeaderBytes)
  return encode(
    head,
    pieces.flatMap(({ data }) => [room, data]),
  )
}

function piecesOf(part: OutputPart): OutputPart[] {
  const { stream, offset, lostBytes, data } = part
  if (data.length <= maxDataBytes) return [part]
  const count = Math.ceil(data.length / maxDataBytes)
  return Array.from({ length: count }, (_, n) => {
    const at = n * maxDataBytes
    return {
      stream,
      offset: offset + at,
      lostBytes: n === 0 ? lostBytes : 0,
      data: data.subarray(at, at + maxDataBytes),
    }
  })
}

/** Decodes a reply with output. @throws Error for a message that is not valid */
export function decodeOutput(message: Uint8Array): SessionOutput {
  const { head, data } = decode(message)
  if (!outputHead.Check(head)) throw new Error('the session output does not match the contract')
  let at = 0
  const parts = head.parts.map(({ stream, offset, lostBytes, bytes }) => {
    const from = at + messageHeaderBytes
    at = from + bytes
    return { stream, offset, lostBytes, data: data.subarray(from, at) }
  })
  if (at !== data.length) throw new Error('the length of the session output differs from the length in its head')
  return { parts, end: head.end, windowBytes: head.windowBytes }
}

/**
 * Encodes an `input` request. Once the message is sent, its memory may be returned to the pool (lib/buffer-pool.ts).
 * @param data consecutive parts of the input
 */
export function encodeInput(at: Omit<SessionInput, 'data'>, data: readonly Uint8Array[]): Uint8Array {
  return encode(at, data)
}

/** Decodes an `input` request. @throws Error for a message that is not valid */
export function decodeInput(message: Uint8Array): SessionInput {
  const { head, data } = decode(message)
  check(SessionInputAt, head)
  if (data.length > maxInputBytes) throw new Error('the request has too much data')
  return { vmId: head.vmId, sessionId: head.sessionId, offset: head.offset, data }
}

/**
 * Other files also use these functions for their binary messages (shell.ts). @throws Error for a message that is not
 * valid
 */
export { check as checkHead, decode as decodeWithHead, encode as encodeWithHead }

function check<T extends TSchema>(schema: T, value: unknown): asserts value is Static<T> {
  if (!Value.Check(schema, value)) throw new Error('the message does not match the contract')
}

function encode(head: object, data: readonly Uint8Array[]): Uint8Array {
  const text = Buffer.from(JSON.stringify(head))
  const message = takeBytes(data.reduce((sum, part) => sum + part.length, headBytes + text.length))
  message.writeUInt32BE(text.length)
  message.set(text, headBytes)
  let at = headBytes + text.length
  for (const part of data) {
    message.set(part, at)
    at += part.length
  }
  return message
}

function decode(message: Uint8Array): { readonly head: unknown; readonly data: Uint8Array } {
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const length = bytes.length < headBytes ? 0 : bytes.readUInt32BE()
  if (length === 0 || length > maxHeadBytes || headBytes + length > bytes.length)
    throw new Error('the message has no head')
  const head: unknown = JSON.parse(bytes.toString('utf8', headBytes, headBytes + length))
  return { head, data: bytes.subarray(headBytes + length) }
}
