import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionAnswer } from '../../contract/agent.ts'
import type { Offsets, SessionEnd } from '../guest/session-words.ts'
import type { Attachment, GuestSessions, SessionData } from '../guest/sessions.ts'

const streams = ['stdout', 'stderr'] as const
type ReadAnswer = Extract<SessionAnswer, { action: 'read' }>

/**
 * One attachment to a session, whose output waits here until it is read and acknowledged. The guest's window limits it
 * to 128 KiB for each stream.
 */
export class SessionReader {
  readonly id: string
  readonly #attachment: Attachment
  #parts: readonly SessionData[] = []
  /** Everything before these offsets is acknowledged. */
  #first: Offsets
  #next: Offsets
  #end: SessionEnd | undefined
  #failure: { readonly error: unknown } | undefined
  #news = Promise.withResolvers<void>()

  constructor(sessions: GuestSessions, sessionId: string, id: string, from: Offsets) {
    this.id = id
    this.#first = from
    this.#next = from
    this.#attachment = sessions.attach(sessionId, from, part => {
      this.#parts = [...this.#parts, part]
      this.#next = { ...this.#next, [part.stream]: part.offset + part.data.length }
      this.#notify()
    })
    this.#attachment.ended
      .then(end => {
        this.#end = end
      })
      .catch((error: unknown) => {
        this.#failure = { error }
      })
      .finally(() => this.#notify())
  }

  /** Whether this reader can continue at these offsets. If not, a new attachment has to. */
  covers(from: Offsets): boolean {
    const held = streams.every(stream => this.#first[stream] <= from[stream] && from[stream] <= this.#next[stream])
    return held && this.#failure === undefined
  }

  /** Acknowledges the output before `from`, and returns what follows, at the latest after `waitMs`. */
  async read(from: Offsets, waitMs: number): Promise<ReadAnswer> {
    this.#acknowledge(from)
    const timer = new AbortController()
    const late = sleep(waitMs, undefined, { signal: timer.signal }).catch(() => undefined)
    if (this.#parts.length === 0 && !this.#end && !this.#failure) await Promise.race([this.#news.promise, late])
    timer.abort()
    // Output that an unfinished attachment delivered is sent again by the next one.
    if (this.#failure) throw this.#failure.error
    const parts = this.#parts.map(({ stream, offset, lostBytes, data }) => ({
      stream,
      offset,
      lostBytes,
      data: data.toString('base64'),
    }))
    return { action: 'read', parts, end: this.#end ?? null }
  }

  /** The process goes on. */
  detach(): void {
    this.#attachment.detach().catch(() => undefined)
  }

  #acknowledge(from: Offsets): void {
    this.#first = from
    this.#parts = this.#parts.flatMap(part => {
      const read = Math.max(0, from[part.stream] - part.offset)
      if (read >= part.data.length) return []
      return read === 0
        ? [part]
        : [{ stream: part.stream, offset: part.offset + read, lostBytes: 0, data: part.data.subarray(read) }]
    })
    for (const stream of streams) this.#attachment.ack(stream, from[stream])
  }

  #notify(): void {
    this.#news.resolve()
    this.#news = Promise.withResolvers()
  }
}
