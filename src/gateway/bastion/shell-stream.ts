/** Copies bytes between an SSH channel and a session in a VM. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type ssh2 from 'ssh2'
import { BusError } from '../../bus/bus.ts'
import type { SessionAnswer, SessionOutput, SessionRequest } from '../../contract/agent.ts'
import type { ShellAsk, ShellInput } from '../../contract/shell.ts'
import { maxInputBytes, maxReadWaitMs, maxTextInputBytes } from '../../contract/agent/session.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { ShellControl } from './shell.ts'
import { endBySignal } from './signals.ts'

/**
 * How long a request is retried while nothing responds. A restart of control or the agent, a pause or a live migration
 * usually takes less.
 */
const patienceMs = 120_000
const hangUp = 1
const notFoundCode = 127

interface Opened {
  readonly ticket: string
  readonly sessionId: string
  readonly takesBytes?: true
}
type Ask = Exclude<SessionRequest, { action: 'open' | 'list' }>
type Control =
  | Omit<Extract<Ask, { action: 'resize' }>, 'sessionId'>
  | Omit<Extract<Ask, { action: 'signal' }>, 'sessionId'>

type ByteInput = Omit<ShellInput, 'ticket'>

const bytesOf = (data: string | Uint8Array): Buffer =>
  typeof data === 'string' ? Buffer.from(data, 'base64') : Buffer.from(data.buffer, data.byteOffset, data.byteLength)

/** Thrown when the session has ended or may no longer be used. The message is shown to the user. */
class Ended extends Error {}

export class ShellStream {
  readonly #control: ShellControl
  readonly #opened: Opened
  /**
   * Whether requests use bytes instead of base64 text. False with an older control plane, and after a request without a
   * response, because an older control plane may handle the next one.
   */
  #usesBytes: boolean
  readonly #channel: ssh2.ServerChannel
  readonly #over: AbortController
  /** Whether the channel is a forwarded connection, which has no standard error and no exit code (RFC 4254, 7.2). */
  readonly #isForwarded: boolean
  #controls = Promise.resolve()

  constructor(
    control: ShellControl,
    opened: Opened,
    channel: ssh2.ServerChannel,
    over: AbortSignal,
    kind: 'program' | 'forwarded' = 'program',
  ) {
    this.#control = control
    this.#opened = opened
    this.#usesBytes = opened.takesBytes === true
    this.#channel = channel
    this.#isForwarded = kind === 'forwarded'
    this.#over = new AbortController()
    const stop = () => this.#over.abort()
    if (over.aborted) stop()
    over.addEventListener('abort', stop, { once: true })
    channel.on('close', () => {
      over.removeEventListener('abort', stop)
      stop()
    })
  }

  /** Runs until the program has ended, or the client has closed the channel. */
  async run(log: Logger): Promise<void> {
    const input = this.#pumpInput().catch((err: unknown) => {
      // Ignore an end of the session here: `#pumpOutput` reports it to the client.
      if (!(err instanceof Ended) && !this.#over.signal.aborted) log.debug({ err }, 'the input of a session ended')
    })
    try {
      await this.#pumpOutput()
    } catch (cause) {
      if (!this.#over.signal.aborted) this.#fail(cause instanceof Ended ? cause.message : 'The VM does not answer.')
      if (!(cause instanceof Ended) && !this.#over.signal.aborted) throw cause
    }
    if (this.#over.signal.aborted) await this.#hangUp()
    this.#over.abort()
    await input
  }

  /** Sends a resize or a signal to the session, in the order of the calls. */
  control(control: Control): void {
    const { sessionId } = this.#opened
    this.#controls = this.#controls.then(() =>
      this.#ask(() => ({ ...control, sessionId })).then(
        () => undefined,
        () => undefined,
      ),
    )
  }

  async #pumpOutput(): Promise<void> {
    const { sessionId } = this.#opened
    const readerId = randomUUID()
    let from = { stdout: 0, stderr: 0 }
    const request = () => ({ action: 'read', sessionId, readerId, from, waitMs: maxReadWaitMs }) as const
    const read = () => this.#ask(isBytes => ({ ...request(), ...(isBytes ? { bytes: true } : {}) }))
    for (let reading = read(); ; ) {
      const answer = await reading
      if ('action' in answer && answer.action !== 'read') throw new Ended('The host sent an unexpected response.')
      const parts = answer.parts.map(part => ({ ...part, data: bytesOf(part.data) }))
      for (const { stream, offset, data } of parts) from = { ...from, [stream]: offset + data.length }
      // Start the next read now, so that it runs while this output is written.
      if (!answer.end) reading = read()
      reading.catch(() => undefined)
      for (const { stream, data } of parts) await this.#write(stream, data)
      if (!answer.end) continue
      if (answer.end.code === notFoundCode && answer.end.reason === 'exited' && from.stdout === 0)
        this.#say('If the image has no shell (/bin/sh), only SFTP and ports can be used.\n')
      this.#exit(answer.end.reason === 'exited' ? answer.end.code : endBySignal(answer.end.code))
      this.#channel.end()
      await this.#ask(() => ({ action: 'remove', sessionId })).catch(() => undefined)
      return
    }
  }

  #say(text: string): void {
    if (!this.#isForwarded) this.#channel.stderr.write(text)
  }

  #exit(end: ReturnType<typeof endBySignal>): void {
    if (this.#isForwarded) return
    if (typeof end === 'number') this.#channel.exit(end)
    else this.#channel.exit(end)
  }

  async #write(stream: 'stdout' | 'stderr', data: Buffer): Promise<void> {
    if (stream === 'stderr' && this.#isForwarded) return
    const to = stream === 'stdout' ? this.#channel : this.#channel.stderr
    if (to.write(data)) return
    const { signal } = this.#over
    await once(to, 'drain', { signal })
  }

  async #pumpInput(): Promise<void> {
    const { sessionId } = this.#opened
    let offset = 0
    // `destroyOnReturn` is off: otherwise the end of the input would also close the output.
    for await (const chunk of this.#channel.iterator({ destroyOnReturn: false })) {
      const data = chunk as Buffer
      for (let at = 0; at < data.length; ) {
        const rest = data.subarray(at)
        const from = offset
        const answer = await this.#ask(isBytes => {
          const part = rest.subarray(0, isBytes ? maxInputBytes : maxTextInputBytes)
          if (isBytes) return { sessionId, offset: from, data: part }
          return { action: 'input', sessionId, offset: from, data: part.toString('base64') }
        })
        if (!('action' in answer) || answer.action !== 'input') throw new Ended('The host sent an unexpected response.')
        at += answer.receivedBytes - offset
        offset = answer.receivedBytes
      }
    }
    await this.#ask(() => ({ action: 'close_input', sessionId }))
  }

  /**
   * Sends SIGHUP when the client has disconnected, as sshd does. A program that ignores the signal runs until the
   * session's idle time-out.
   */
  async #hangUp(): Promise<void> {
    const { ticket, sessionId } = this.#opened
    const request = { action: 'signal', sessionId, number: hangUp } as const
    await this.#control.ask({ ticket, request }, AbortSignal.timeout(5000)).catch(() => undefined)
  }

  #fail(reason: string): void {
    this.#say(`${reason}\r\n`)
    this.#exit(255)
    this.#channel.end()
  }

  #message(request: Ask | ByteInput): ShellAsk | ShellInput {
    const { ticket } = this.#opened
    return 'action' in request ? { ticket, request } : { ticket, ...request }
  }

  /**
   * Sends a request, and repeats it while nothing responds. Repeating is safe, because each request contains its
   * position in the data. @throws Ended, BusError
   */
  async #ask(requestOf: (isBytes: boolean) => Ask | ByteInput): Promise<SessionAnswer | SessionOutput> {
    const { signal } = this.#over
    const untilMs = performance.now() + patienceMs
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#control.ask(this.#message(requestOf(this.#usesBytes)), signal)
        if ('parts' in answer) return answer
        if ('answer' in answer) return answer.answer
        if ('reason' in answer) throw new Ended(answer.reason)
        if (performance.now() > untilMs) throw new Ended('The VM does not answer.')
      } catch (cause) {
        const mayPass = cause instanceof BusError && cause.code !== 'closed' && cause.code !== 'aborted'
        if (!mayPass || performance.now() > untilMs) throw cause
      }
      this.#usesBytes = false
      await delay(Math.min(2_000, backoffMs(tries, Math.random())), undefined, { signal })
    }
  }
}
