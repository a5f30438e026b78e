import type { SessionOutput } from '../../contract/agent.ts'
import type { Offsets, SessionEnd } from '../guest/session-words.ts'
import type { Attachment, GuestSessions } from '../guest/sessions.ts'
import { UnreadOutput } from './unread-output.ts'

const streams = ['stdout', 'stderr'] as const

/**
 * One attachment to a session, which buffers the session's output until a client has read and acknowledged it. The
 * guest's window limits the buffer of each stream.
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

  /** True if this reader can continue at these offsets. If not, the caller needs a new attachment. */
  covers(from: Offsets): boolean {
    const held = streams.every(
      stream => this.#unread[stream].offset <= from[stream] && from[stream] <= this.#unread[stream].next,
    )
    return held && this.#failure === undefined
  }

  /**
   * Acknowledges the output before `acked`, and returns at most `most` bytes of each stream that follow `from`, at the
   * latest after `waitMs`. The returned data is only valid until more output arrives.
   */
  async read(
    from: Offsets,
    {
      waitMs,
      acked = from,
      most,
    }: { readonly waitMs: number; readonly acked?: Offsets | undefined; readonly most: number },
  ): Promise<SessionOutput> {
    for (const stream of streams) {
      const until = Math.min(acked[stream], from[stream])
      this.#unread[stream].dropUntil(until)
      this.#attachment.ack(stream, until)
    }
    if (!this.#hasNews(from)) await this.#untilNews(waitMs)
    // Dropping the buffered output loses nothing: it is not acknowledged, so the guest sends it again after the next
    // attachment.
    if (this.#failure) throw this.#failure.error
    const parts = streams
      .filter(stream => this.#unread[stream].next > from[stream])
      .map(stream => ({ stream, ...this.#unread[stream].read(from[stream], most) }))
    const isAll = parts.every(({ stream, offset, data }) => offset + data.length === this.#unread[stream].next)
    return { parts, end: (isAll && this.#end) || null, windowBytes: this.#attachment.windowBytes() }
  }

  /** Detaches from the session. The process of the session continues. */
  detach(): void {
    this.#attachment.detach().catch(() => undefined)
  }

  #hasNews(from: Offsets): boolean {
    const hasOutput = streams.some(stream => this.#unread[stream].next > from[stream])
    return hasOutput || this.#end !== undefined || this.#failure !== undefined
  }

  /** Wakes all reads that wait for output. */
  #announce(): void {
    const { resolve } = this.#news
    this.#news = Promise.withResolvers()
    resolve()
  }

  async #untilNews(waitMs: number): Promise<void> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, waitMs)
    await Promise.race([this.#news.promise, late.promise])
    clearTimeout(timer)
  }
}
