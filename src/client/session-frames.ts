/** Messages of a session's WebSocket, as docs/sessions.md describes them. */

/** Name of the WebSocket subprotocol for sessions. */
export const sessionSubprotocol = 'mote.session.v1'
/** Bytes of unconfirmed input that a client may send if the server states no limit. */
export const inputWindowBytes = 1 << 18
/** Maximum data of one message, in bytes. */
export const maxDataBytes = 1 << 16

export type SessionSignal =
  | 'HUP'
  | 'INT'
  | 'QUIT'
  | 'KILL'
  | 'USR1'
  | 'USR2'
  | 'TERM'
  | 'CONT'
  | 'STOP'
  | 'TSTP'
  | 'WINCH'

export type ClientMessage =
  | { readonly type: 'ack'; readonly stdout: number; readonly stderr: number }
  | { readonly type: 'resize'; readonly rows: number; readonly columns: number }
  | { readonly type: 'signal'; readonly signal: SessionSignal }
  | { readonly type: 'close_input' }
  | { readonly type: 'done' }

export type ServerMessage =
  | {
      readonly type: 'attached'
      readonly stdout: number
      readonly stderr: number
      readonly stdin: number
      readonly inputWindow?: number
    }
  | { readonly type: 'received'; readonly stdin: number }
  | { readonly type: 'input_closed' }
  | { readonly type: 'lost'; readonly stream: 'stdout' | 'stderr'; readonly bytes: number }
  | { readonly type: 'end'; readonly reason: 'exited' | 'signaled'; readonly code: number }

const headerBytes = 9
const outputs: ReadonlyMap<number, 'stdout' | 'stderr'> = new Map([
  [1, 'stdout'],
  [2, 'stderr'],
])

/**
 * Encodes input of the program: stream number 0, the position as an unsigned 64-bit integer (big endian), the bytes.
 */
export function encodeInput(position: number, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(headerBytes + data.length)
  new DataView(message.buffer).setBigUint64(1, BigInt(position))
  message.set(data, headerBytes)
  return message
}

/** Decodes output of the program. @throws Error for a message of another kind */
export function decodeOutput(message: ArrayBuffer): {
  readonly stream: 'stdout' | 'stderr'
  readonly position: number
  readonly data: Uint8Array
} {
  const header = new DataView(message, 0, Math.min(headerBytes, message.byteLength))
  const stream = message.byteLength < headerBytes ? undefined : outputs.get(header.getUint8(0))
  if (!stream) throw new Error('The server sent session output that this client cannot decode. Update the client.')
  return { stream, position: Number(header.getBigUint64(1)), data: new Uint8Array(message, headerBytes) }
}
