/** Connects the WebSocket of one client with one VM session: sends output to the client, and input to the guest. */
import { Compile } from 'typebox/compile'
import { BusError } from '../../bus/bus.ts'
import {
  decodeData,
  encodeDataInPlace,
  inputWindowBytes,
  SessionClientMessage,
  type SessionServerMessage,
  signalNumbers,
} from '../../contract/session-stream.ts'
import type { SessionOutput } from '../../contract/agent.ts'
import { giveBytes } from '../../lib/buffer-pool.ts'
import type { MessageSocket } from '../http/operation.ts'
import type { GuestLine } from './guest-line.ts'
import { InputQueue } from './input-queue.ts'

/** Close code for a client that breaks the protocol (RFC 6455, 7.4.1). */
const policyViolation = 1008
/** The longest time that the agent lets a read wait for output. */
const readWaitMs = 25_000
/** Maximum number of control messages (resize, signal) in the queue to the guest. */
const mostControls = 64
const maxTextBytes = 4096
/** Input data with fewer bytes than this is copied out of the WebSocket message; see `#takeInput`. */
const ownBytes = 1 << 15

export interface Positions {
  readonly stdout: number
  readonly stderr: number
}
type SessionEnd = NonNullable<SessionOutput['end']>
type Control = Extract<SessionClientMessage, { type: 'resize' | 'signal' }>

export interface AttachmentOptions {
  readonly sessionId: string
  /** Identifies this client to the agent. */
  readonly readerId: string
  readonly from: Positions
  /** Number of input bytes of the session that the program has already received. */
  readonly inputBytes: number
}

export class Attachment {
  readonly #socket: MessageSocket
  readonly #line: GuestLine
  readonly #options: AttachmentOptions
  readonly #input: InputQueue
  readonly #controls: Control[] = []
  #isControlling = false
  #isDiscarding = false
  #sent: Positions
  #acked: Positions
  #wake = Promise.withResolvers<void>()
  #isDone = false
  readonly #failure = Promise.withResolvers<never>()

  constructor(socket: MessageSocket, line: GuestLine, options: AttachmentOptions) {
    this.#socket = socket
    this.#line = line
    this.#options = options
    this.#sent = this.#acked = options.from
    this.#input = new InputQueue({
      position: options.inputBytes,
      write: (offset, parts, isAhead) => this.#write(offset, parts, isAhead),
      most: () => line.inputsAhead(),
    })
    this.#failure.promise.catch(() => undefined)
    socket.signal.addEventListener('abort', () => this.#wake.resolve(), { once: true })
  }

  /**
   * Runs until the client has disconnected, or has acknowledged the result.
   * @param onEnd called once the program has ended
   * @returns whether the client has received all output and the result
   * @throws the errors of `GuestLine`
   */
  async run(onEnd: (end: SessionEnd) => Promise<void>): Promise<boolean> {
    this.#socket.onMessage(message => this.#take(message))
    const { from, inputBytes } = this.#options
    this.#send({ type: 'attached', ...from, stdin: inputBytes, inputWindow: inputWindowBytes })
    return Promise.race([this.#pumpOutput(onEnd), this.#failure.promise])
  }

  async #pumpOutput(onEnd: (end: SessionEnd) => Promise<void>): Promise<boolean> {
    const { sessionId, readerId } = this.#options
    const { signal } = this.#socket
    while (!signal.aborted) {
      const positions = { from: this.#sent, acked: this.#acked }
      const request = { sessionId, readerId, ...positions, waitMs: readWaitMs }
      const { parts, end, windowBytes } = await this.#line.read(request, signal)
      let unsent = parts.length
      for (const part of parts) this.#sendPart(part, () => --unsent === 0 && giveBytes(part.data))
      // Wait only until the client has acknowledged all but half of the window, not everything: the acknowledgment
      // reaches the VM with the next read, and the program can write meanwhile.
      await this.#until(() => this.#isWithin(end ? 0 : windowBytes / 2))
      if (!end) continue
      await onEnd(end)
      this.#send({ type: 'end', reason: end.reason, code: end.code, ...end.total })
      await this.#until(() => this.#isDone)
      return this.#isDone
    }
    return false
  }

  /** Returns whether at most `bytes` of each output stream are sent to the client and not yet acknowledged. */
  #isWithin(bytes: number): boolean {
    const { stdout, stderr } = this.#acked
    return this.#sent.stdout - stdout <= bytes && this.#sent.stderr - stderr <= bytes
  }

  #sendPart({ stream, offset, lostBytes, data }: SessionOutput['parts'][number], onSent: () => void): void {
    if (lostBytes > 0) this.#send({ type: 'lost', stream, bytes: lostBytes })
    this.#socket.send(encodeDataInPlace(stream, offset, data), onSent)
    this.#sent = { ...this.#sent, [stream]: offset + data.length }
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition() && !this.#socket.signal.aborted) {
      this.#wake = Promise.withResolvers()
      await this.#wake.promise
    }
  }

  #take(message: string | Buffer): void {
    if (typeof message !== 'string') return this.#takeInput(message)
    const parsed = message.length <= maxTextBytes ? parseMessage(message) : undefined
    if (!parsed) return this.#refuse('a message is not valid')
    switch (parsed.type) {
      case 'ack':
        if (parsed.stdout > this.#sent.stdout || parsed.stderr > this.#sent.stderr)
          return this.#refuse('an acknowledgment of output that was not sent')
        this.#acked = { stdout: parsed.stdout, stderr: parsed.stderr }
        return this.#wake.resolve()
      case 'done':
        this.#isDone = true
        return this.#wake.resolve()
      case 'close_input':
        this.#input.close()
        return
      case 'resize':
      case 'signal':
        return this.#control(parsed)
    }
  }

  #takeInput(message: Buffer): void {
    const part = decodeData(message)
    if (part?.stream !== 'stdin') return this.#refuse('a message is not valid')
    if (this.#isDiscarding) return
    // Copy the data of a small message, because it is a view into a larger receive buffer and would keep the whole
    // buffer in memory.
    const data = part.data.length < ownBytes ? Uint8Array.from(part.data) : part.data
    const fault = this.#input.push(part.position, data)
    if (fault !== undefined) this.#refuse(fault)
  }

  async #write(offset: number, parts: readonly Uint8Array[] | undefined, isAhead: boolean): Promise<number> {
    const { sessionId } = this.#options
    const { signal } = this.#socket
    try {
      if (!parts) {
        await this.#line.ask({ action: 'close_input', sessionId }, signal)
        return offset
      }
      const receivedBytes = await this.#line.input({ sessionId, offset }, parts, signal)
      this.#send({ type: 'received', stdin: receivedBytes })
      return receivedBytes
    } catch (cause) {
      if (isAhead && isMissingInput(cause)) return offset
      // The guest refuses input if the program has ended or has closed its standard input.
      if (isClosedInput(cause)) this.#discardInput()
      else this.#failure.reject(cause)
      throw cause
    }
  }

  /** Queues a control message for the guest. A resize replaces a resize that is still queued. */
  #control(message: Control): void {
    const last = this.#controls.at(-1)
    if (message.type === 'resize' && last?.type === 'resize') this.#controls.pop()
    if (this.#controls.length >= mostControls) return this.#refuse('too many signals at once')
    this.#controls.push(message)
    if (!this.#isControlling) void this.#sendControls()
  }

  async #sendControls(): Promise<void> {
    const { sessionId } = this.#options
    this.#isControlling = true
    for (let next = this.#controls.shift(); next; next = this.#controls.shift()) {
      const request =
        next.type === 'resize'
          ? ({ action: 'resize', sessionId, size: { rows: next.rows, columns: next.columns } } as const)
          : ({ action: 'signal', sessionId, number: signalNumbers[next.signal] } as const)
      // Ignore that the guest refuses control messages after the program has ended: the client could not know it.
      await this.#line.ask(request, this.#socket.signal).catch(() => undefined)
    }
    this.#isControlling = false
  }

  #discardInput(): void {
    this.#isDiscarding = true
    this.#send({ type: 'input_closed' })
  }

  #refuse(reason: string): void {
    this.#socket.close(policyViolation, reason)
  }

  #send(message: SessionServerMessage): void {
    this.#socket.send(JSON.stringify(message))
  }
}

const isMissingInput = (cause: unknown) =>
  cause instanceof BusError && cause.remoteCode === 'session_refused' && cause.message.includes('bad input')

export const isClosedInput = (cause: unknown) =>
  cause instanceof BusError && cause.remoteCode === 'session_refused' && /input is closed|has ended/.test(cause.message)

/** The validator of acknowledgments is compiled, because clients send many of them. */
const clientMessage = Compile(SessionClientMessage)

function parseMessage(text: string): SessionClientMessage | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return clientMessage.Check(value) ? value : undefined
  } catch {
    return undefined
  }
}
