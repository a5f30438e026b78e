import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionAnswer } from '../../contract/agent.ts'
import type { Offsets, SessionEnd } from '../guest/session-words.ts'
import type { Attachment, GuestSessions } from '../guest/sessions.ts'
import { UnreadOutput } from './unread-output.ts'

const streams = ['stdout', 'stderr'] as const
type ReadAnswer = Extract<SessionAnswer, { action: 'read' }>

/**
 * One attachment to a session, whose output waits here until it is read and acknowledged. The guest's window limits it
 * to 256 KiB for each stream.
 */
export class SessionReader {
  readonly id: string
  readonly #attachment: Attachment
  readonly #unread: Readonly<Record<keyof Offsets, UnreadOutput>>
  #end: SessionEnd | undefined
  #failure: { readonly error: unknown } | undefined
  #news = Promise.withResolvers<void>()

  constructor(sessions: Pick<GuestSessions, 'attach'>, sessionId: string, id: string, from: Offsets) {
    this.id = id
    this.#unread = { stdout: new UnreadOutput(from.stdout), stderr: new UnreadOutput(from.stderr) }
    this.#attachment = sessions.attach(sessionId, from, ({ stream, lostBytes, data }) => {
      this.#unread[stream].push(data, lostBytes)
      this.#announce()
    })
    this.#attachment.ended
      .then(end => {
        this.#end = end
      })
      .catch((error: unknown) => {
        this.#failure = { error }
      })
      .finally(() => this.#announce())
  }

  /** Whether this reader can continue at these offsets. If not, a new attachment has to. */
  covers(from: Offsets): boolean {
    const held = streams.every(
      stream => this.#unread[stream].offset <= from[stream] && from[stream] <= this.#unread[stream].next,
    )
    return held && this.#failure === undefined
  }

  /** Acknowledges the output before `acked`, and returns what follows `from`, at the latest after `waitMs`. */
  async read(from: Offsets, waitMs: number, acked = from): Promise<ReadAnswer> {
    for (const stream of streams) {
      const until = Math.min(acked[stream], from[stream])
      this.#unread[stream].dropUntil(until)
      this.#attachment.ack(stream, until)
    }
    if (!this.#hasNews(from)) await this.#untilNews(waitMs)
    // Output that an unfinished attachment delivered is sent again by the next one.
    if (this.#failure) throw this.#failure.error
    const parts = streams
      .filter(stream => this.#unread[stream].next > from[stream])
      .map(stream => ({ stream, ...this.#unread[stream].read(from[stream]) }))
    return { action: 'read', parts, end: this.#end ?? null }
  }

  /** The process goes on. */
  detach(): void {
    this.#attachment.detach().catch(() => undefined)
  }

  #hasNews(from: Offsets): boolean {
    const hasOutput = streams.some(stream => this.#unread[stream].next > from[stream])
    return hasOutput || this.#end !== undefined || this.#failure !== undefined
  }

  /** Ends all waits that have begun. */
  #announce(): void {
    const { resolve } = this.#news
    this.#news = Promise.withResolvers()
    resolve()
  }

  async #untilNews(waitMs: number): Promise<void> {
    const timer = new AbortController()
    const late = sleep(waitMs, undefined, { signal: timer.signal }).catch(() => undefined)
    await Promise.race([this.#news.promise, late])
    timer.abort()
  }
}
