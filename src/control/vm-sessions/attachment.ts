/** One client's WebSocket on one session: moves output to the client, and input to the guest. */
import { Value } from 'typebox/value'
import { BusError } from '../../bus/bus.ts'
import {
  decodeData,
  encodeData,
  inputWindowBytes,
  maxDataBytes,
  SessionClientMessage,
  type SessionServerMessage,
  signalNumbers,
} from '../../contract/session-stream.ts'
import type { SessionAnswer } from '../../contract/agent.ts'
import { readAheadBytes } from '../../contract/agent/session.ts'
import type { MessageSocket } from '../http/operation.ts'
import type { GuestLine } from './guest-line.ts'
import { InputQueue } from './input-queue.ts'

/** Close code for a client that breaks the protocol (RFC 6455, 7.4.1). */
const policyViolation = 1008
/** The longest wait that the agent accepts. */
const readWaitMs = 25_000
/** Control messages that may wait for the guest. */
const mostControls = 64
const maxTextBytes = 4096

export interface Positions {
  readonly stdout: number
  readonly stderr: number
}
type SessionEnd = NonNullable<Extract<SessionAnswer, { action: 'read' }>['end']>
type Control = Extract<SessionClientMessage, { type: 'resize' | 'signal' }>

export interface AttachmentOptions {
  readonly sessionId: string
  /** Names this client to the agent. */
  readonly readerId: string
  readonly from: Positions
  /** Bytes of input that the program has. */
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
    this.#input = new InputQueue(options.inputBytes, (offset, data) => this.#write(offset, data))
    this.#failure.promise.catch(() => undefined)
    socket.signal.addEventListener('abort', () => this.#wake.resolve(), { once: true })
  }

  /**
   * Runs until the client has gone, or has the result. @param onEnd called once the program has ended
   * @returns whether the client has everything
   * @throws as GuestLine
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
      const request = { action: 'read', sessionId, readerId, ...positions, waitMs: readWaitMs } as const
      const { parts, end } = await this.#line.ask(request, signal)
      for (const part of parts) this.#sendPart(part)
      await this.#until(() => this.#isWithin(end ? 0 : readAheadBytes))
      if (!end) continue
      await onEnd(end)
      this.#send({ type: 'end', reason: end.reason, code: end.code, ...end.total })
      await this.#until(() => this.#isDone)
      return this.#isDone
    }
    return false
  }

  /** Whether at most this much of each output was sent, but not acknowledged. */
  #isWithin(bytes: number): boolean {
    const { stdout, stderr } = this.#acked
    return this.#sent.stdout - stdout <= bytes && this.#sent.stderr - stderr <= bytes
  }

  #sendPart(part: Extract<SessionAnswer, { action: 'read' }>['parts'][number]): void {
    const { stream, offset, lostBytes } = part
    if (lostBytes > 0) this.#send({ type: 'lost', stream, bytes: lostBytes })
    const data = Buffer.from(part.data, 'base64')
    for (let at = 0; at < data.length; at += maxDataBytes)
      this.#socket.send(encodeData(stream, offset + at, data.subarray(at, at + maxDataBytes)))
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
    const fault = this.#input.push(part.position, Buffer.from(part.data))
    if (fault !== undefined) this.#refuse(fault)
  }

  async #write(offset: number, data: Buffer | undefined): Promise<number> {
    const { sessionId } = this.#options
    const { signal } = this.#socket
    try {
      if (!data) {
        await this.#line.ask({ action: 'close_input', sessionId }, signal)
        return offset
      }
      const request = { action: 'input', sessionId, offset, data: data.toString('base64') } as const
      const { receivedBytes } = await this.#line.ask(request, signal)
      this.#send({ type: 'received', stdin: receivedBytes })
      return receivedBytes
    } catch (cause) {
      // The program has ended, or has closed its input.
      if (isClosedInput(cause)) this.#discardInput()
      else this.#failure.reject(cause)
      throw cause
    }
  }

  /** A new size replaces one that still waits. */
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
      // The guest refuses them once the program has ended, which is not an error of the client.
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

export const isClosedInput = (cause: unknown) =>
  cause instanceof BusError && cause.remoteCode === 'session_refused' && /input is closed|has ended/.test(cause.message)

function parseMessage(text: string): SessionClientMessage | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return Value.Check(SessionClientMessage, value) ? value : undefined
  } catch {
    return undefined
  }
}
