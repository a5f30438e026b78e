/** Moves bytes between an SSH channel and a session in a VM. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type ssh2 from 'ssh2'
import { BusError } from '../../bus/bus.ts'
import type { SessionAnswer, SessionRequest } from '../../contract/agent.ts'
import { maxReadWaitMs, maxTextInputBytes } from '../../contract/agent/session.ts'
import { backoffMs } from '../../lib/backoff.ts'
import type { ShellControl } from './shell.ts'
import { endBySignal } from './signals.ts'

/** A restart of control or the agent, a pause or a live migration takes less. */
const patienceMs = 120_000
const hangUp = 1
const notFoundCode = 127

type Ask = Exclude<SessionRequest, { action: 'open' | 'list' }>
type Control =
  | Omit<Extract<Ask, { action: 'resize' }>, 'sessionId'>
  | Omit<Extract<Ask, { action: 'signal' }>, 'sessionId'>

/** The session has ended, or may no longer be used. The message is for the user. */
class Ended extends Error {}

export class ShellStream {
  readonly #control: ShellControl
  readonly #opened: { readonly ticket: string; readonly sessionId: string }
  readonly #channel: ssh2.ServerChannel
  readonly #over: AbortController
  #controls = Promise.resolve()

  constructor(
    control: ShellControl,
    opened: { readonly ticket: string; readonly sessionId: string },
    channel: ssh2.ServerChannel,
    over: AbortSignal,
  ) {
    this.#control = control
    this.#opened = opened
    this.#channel = channel
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
      // The output says why a session ends.
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

  /** Sends a resize or a signal, in the order of the calls. */
  control(control: Control): void {
    const { sessionId } = this.#opened
    this.#controls = this.#controls.then(() =>
      this.#ask({ ...control, sessionId }).then(
        () => undefined,
        () => undefined,
      ),
    )
  }

  async #pumpOutput(): Promise<void> {
    const { sessionId } = this.#opened
    const readerId = randomUUID()
    let from = { stdout: 0, stderr: 0 }
    const read = () => this.#ask({ action: 'read', sessionId, readerId, from, waitMs: maxReadWaitMs })
    for (let reading = read(); ; ) {
      const answer = await reading
      if (answer.action !== 'read') throw new Ended('The host answered something else.')
      const parts = answer.parts.map(part => ({ ...part, data: Buffer.from(part.data, 'base64') }))
      for (const { stream, offset, data } of parts) from = { ...from, [stream]: offset + data.length }
      // The next output arrives while this is written.
      if (!answer.end) reading = read()
      reading.catch(() => undefined)
      for (const { stream, data } of parts) await this.#write(stream, data)
      if (!answer.end) continue
      if (answer.end.code === notFoundCode && answer.end.reason === 'exited' && from.stdout === 0)
        this.#channel.stderr.write('If the image has no shell (/bin/sh), only SFTP and ports can be used.\n')
      this.#exit(answer.end.reason === 'exited' ? answer.end.code : endBySignal(answer.end.code))
      this.#channel.end()
      await this.#ask({ action: 'remove', sessionId }).catch(() => undefined)
      return
    }
  }

  #exit(end: ReturnType<typeof endBySignal>): void {
    if (typeof end === 'number') this.#channel.exit(end)
    else this.#channel.exit(end)
  }

  async #write(stream: 'stdout' | 'stderr', data: Buffer): Promise<void> {
    const to = stream === 'stdout' ? this.#channel : this.#channel.stderr
    if (to.write(data)) return
    const { signal } = this.#over
    await once(to, 'drain', { signal })
  }

  async #pumpInput(): Promise<void> {
    const { sessionId } = this.#opened
    let offset = 0
    // The default would end the output together with the input.
    for await (const chunk of this.#channel.iterator({ destroyOnReturn: false })) {
      const data = chunk as Buffer
      for (let at = 0; at < data.length; at += maxTextInputBytes) {
        const part = data.subarray(at, at + maxTextInputBytes)
        await this.#ask({ action: 'input', sessionId, offset, data: part.toString('base64') })
        offset += part.length
      }
    }
    await this.#ask({ action: 'close_input', sessionId })
  }

  /** As sshd does, when the client has gone. The program may go on for the idle time of the session. */
  async #hangUp(): Promise<void> {
    const { ticket, sessionId } = this.#opened
    const request = { action: 'signal', sessionId, number: hangUp } as const
    await this.#control.ask({ ticket, request }, AbortSignal.timeout(5000)).catch(() => undefined)
  }

  #fail(reason: string): void {
    this.#channel.stderr.write(`${reason}\r\n`)
    this.#channel.exit(255)
    this.#channel.end()
  }

  /** Repeats the request while nobody answers: requests state their positions. @throws Ended, BusError */
  async #ask(request: Ask): Promise<SessionAnswer> {
    const { signal } = this.#over
    const untilMs = performance.now() + patienceMs
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#control.ask({ ticket: this.#opened.ticket, request }, signal)
        if ('answer' in answer) return answer.answer
        if ('reason' in answer) throw new Ended(answer.reason)
        if (performance.now() > untilMs) throw new Ended('The VM does not answer.')
      } catch (cause) {
        const mayPass = cause instanceof BusError && cause.code !== 'closed' && cause.code !== 'aborted'
        if (!mayPass || performance.now() > untilMs) throw cause
      }
      await delay(Math.min(2_000, backoffMs(tries, Math.random())), undefined, { signal })
    }
  }
}
