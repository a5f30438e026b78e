/**
 * Server-sent events (WHATWG HTML, 9.2) on a plain response. @fastify/sse is not used: if a client stops reading and
 * then disconnects, its `send` stays pending forever.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { EventStream, SseEvent } from './operation.ts'

export interface StreamLimits {
  /** Bytes that may be buffered for a slow client. Beyond that the stream is closed. */
  readonly bufferBytes: number
  /** Interval of heartbeat comments, which keep proxies from closing an idle stream. */
  readonly heartbeatMs: number
  /** Time that clients are asked to wait before they reconnect. */
  readonly retryMs: number
  /** Time that a client has to drain its buffer while the handler waits in `drained`. */
  readonly drainMs: number
  /** Time that a client has to read the last events of a stream that is being closed. */
  readonly farewellMs: number
}

export const defaultStreamLimits: StreamLimits = {
  bufferBytes: 1 << 20,
  heartbeatMs: 15_000,
  retryMs: 2_000,
  drainMs: 30_000,
  farewellMs: 5_000,
}

export const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
} as const

interface Options {
  readonly limits: StreamLimits
  readonly lastEventId: string | undefined
  /** Called once, before the first byte is written: takes over the response from Fastify and writes the head. */
  readonly onOpen: () => void
  /**
   * Called with every heartbeat. If it returns false, the stream ends, because the credential or the membership was
   * revoked.
   */
  readonly stillAllowed: () => Promise<boolean>
  /** Checks an event; throws if the operation does not declare it. */
  readonly check?: ((event: SseEvent) => void) | undefined
}

/**
 * The server side of one stream. Nothing is sent before the first event, so a handler can still refuse with an error.
 */
export class SseStream implements EventStream {
  readonly lastEventId: string | undefined
  readonly #response: ServerResponse
  readonly #options: Options
  readonly #ended = new AbortController()
  readonly #opened = Promise.withResolvers<void>()
  #state: 'waiting' | 'open' | 'closed' = 'waiting'
  #heartbeat: NodeJS.Timeout | undefined

  constructor(response: ServerResponse, options: Options) {
    this.#response = response
    this.#options = options
    this.lastEventId = options.lastEventId
    response.once('close', () => this.#end())
  }

  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /** Settles when the head has been written, or the stream has ended without one. */
  get opened(): Promise<void> {
    return this.#opened.promise
  }

  /** Writes the head now. The first event does this implicitly. */
  open(): void {
    if (this.#state !== 'waiting') return
    this.#state = 'open'
    this.#options.onOpen()
    this.#write(`retry: ${this.#options.limits.retryMs}\n\n`)
    this.#heartbeat = setInterval(() => void this.#sendHeartbeat(), this.#options.limits.heartbeatMs)
    this.#opened.resolve()
  }

  send(event: SseEvent): boolean {
    this.#options.check?.(event)
    this.open()
    if (this.#state !== 'open') return false
    if (this.#isBehind()) {
      this.#finish(encodeEvent({ event: 'gap', data: { reason: 'slow_reader', at: new Date().toISOString() } }))
      return false
    }
    this.#write(event.text ?? encodeEvent(event))
    return true
  }

  async drained(): Promise<void> {
    const response = this.#response
    response.socket?.uncork()
    if (!response.writableNeedDrain || this.#state === 'closed') return
    const slow = setTimeout(() => this.end('reading too slowly'), this.#options.limits.drainMs)
    await once(response, 'drain', { signal: this.signal }).catch(() => {})
    clearTimeout(slow)
  }

  close(): void {
    this.end('the stream is complete')
  }

  /** Ends the stream with a comment that contains the reason. */
  end(reason: string): void {
    if (this.#state === 'open') this.#finish(`: ${reason}\n\n`)
    else this.#end()
  }

  /** Returns whether the buffer for the client exceeds its limit. */
  #isBehind(): boolean {
    const { bufferBytes } = this.#options.limits
    if (this.#response.writableLength <= bufferBytes) return false
    // Node buffers everything that is written within one tick. Wait for it to be sent first, so that a burst does not
    // close the stream of a client that reads.
    this.#response.socket?.uncork()
    return this.#response.writableLength > bufferBytes
  }

  async #sendHeartbeat(): Promise<void> {
    if (this.#isBehind()) return this.end('reading too slowly')
    const allowed = await this.#options.stillAllowed().catch(() => true)
    if (!allowed) return this.end('no longer allowed')
    if (this.#state === 'open') this.#write(': still here\n\n')
  }

  #write(text: string | Uint8Array): void {
    this.#response.write(text)
  }

  /** Sends the last comment and closes the connection if the client does not read it in time. */
  #finish(lastWords: string): void {
    const response = this.#response
    response.end(lastWords)
    this.#end()
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    delay(this.#options.limits.farewellMs, undefined, { signal: gone.signal, ref: false }).then(
      () => response.destroy(),
      () => {},
    )
  }

  #end(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    clearInterval(this.#heartbeat)
    this.#ended.abort()
    this.#opened.resolve()
  }
}

/** Encodes one event. Line breaks in names and ids are replaced. */
export function encodeEvent({ event, id, data }: Pick<SseEvent, 'event' | 'id' | 'data'>): string {
  const lines = JSON.stringify(data ?? null)
  return `${id === undefined ? '' : `id: ${oneLine(id)}\n`}event: ${oneLine(event)}\ndata: ${lines}\n\n`
}

/** Replaces NUL and line breaks: clients ignore an id with a NUL, and a line break would begin another field. */
const oneLine = (text: string) => text.replace(/[\r\n\0]/g, ' ')

export interface StreamOwner {
  /** Key by which streams are counted and limited: a user id, or an IP address. */
  readonly key: string
  readonly userId?: string
  /** The session or token that opened the stream. */
  readonly credentialId?: string
}

/** An open event stream or WebSocket. */
interface OpenStream {
  readonly signal: AbortSignal
  end(reason: string): void
}

/** The open streams of this process: counts them per owner and ends all of them at shutdown. */
export interface StreamRegistry {
  /** Returns whether the owner has as many streams as the limit allows. */
  isFull(owner: StreamOwner): boolean
  /** Adds a stream. Returns false if the owner already has as many streams as the limit allows. */
  add(owner: StreamOwner, stream: OpenStream): boolean
  /** Returns the number of open streams. */
  count(): number
  /** Ends the streams whose owner matches, e.g. those of a deleted user or a revoked session. */
  endWhere(matches: (owner: StreamOwner) => boolean, reason: string): void
}

export function createStreamRegistry(perOwner: number): StreamRegistry {
  const open = new Map<OpenStream, StreamOwner>()
  const counts = new Map<string, number>()
  const countOf = ({ key }: StreamOwner) => counts.get(key) ?? 0
  const isFull = (owner: StreamOwner) => countOf(owner) >= perOwner
  return {
    isFull,
    add(owner, stream) {
      if (isFull(owner)) return false
      counts.set(owner.key, countOf(owner) + 1)
      open.set(stream, owner)
      const remove = () => {
        open.delete(stream)
        const left = (counts.get(owner.key) ?? 1) - 1
        if (left === 0) counts.delete(owner.key)
        else counts.set(owner.key, left)
      }
      stream.signal.addEventListener('abort', remove, { once: true })
      return true
    },
    count: () => open.size,
    endWhere(matches, reason) {
      for (const [stream, owner] of open) if (matches(owner)) stream.end(reason)
    },
  }
}
