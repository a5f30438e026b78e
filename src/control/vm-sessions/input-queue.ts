import { maxInputBytes } from '../../contract/agent/session.ts'
import { inputWindowBytes } from '../../contract/session-stream.ts'

/** Maximum number of queued messages. It limits the memory of a client that sends many small messages. */
const mostMessages = 4096

/**
 * Writes consecutive input data from position `offset` on, or closes the input if `parts` is undefined. Resolves with
 * the position up to which the program has received input. `isAhead`: earlier writes are still in progress. If one of
 * those is not accepted completely, the guest refuses this write, which then resolves with `offset`.
 */
type Write = (offset: number, parts: readonly Uint8Array[] | undefined, isAhead: boolean) => Promise<number>

interface InputQueueOptions {
  /** Position of the first input byte. */
  readonly position: number
  readonly write: Write
  /** Returns how many writes may run at the same time. */
  readonly most: () => number
}

interface Running {
  readonly end: number
  readonly written: Promise<number>
}

/**
 * Queue of the client's input that the program has not received yet. Writes start in order, and several may run at
 * once.
 */
export class InputQueue {
  readonly #write: Write
  readonly #most: () => number
  /** Position of the first byte in the queue. */
  #written: number
  /** Position of the first byte for which no write has been started yet. */
  #started: number
  #next: number
  #parts: Uint8Array[] = []
  #closing = false
  #running = false

  constructor({ position, write, most }: InputQueueOptions) {
    this.#write = write
    this.#most = most
    this.#written = this.#started = this.#next = position
  }

  /**
   * Appends data; bytes that were already received are ignored.
   * @returns a protocol error of the client, or undefined
   */
  push(position: number, data: Uint8Array): string | undefined {
    if (position > this.#next) return 'input is missing before this data'
    const fresh = data.subarray(this.#next - position)
    if (fresh.length === 0) return undefined
    if (this.#closing) return 'the input is closed'
    if (this.#next + fresh.length > this.#written + inputWindowBytes || this.#parts.length >= mostMessages)
      return 'too much unconfirmed input'
    this.#parts.push(fresh)
    this.#next += fresh.length
    this.#start()
    return undefined
  }

  /** Closes the program's input once all queued data is written. */
  close(): void {
    if (this.#closing) return
    this.#closing = true
    this.#start()
  }

  #start(): void {
    if (this.#running) return
    this.#running = true
    this.#run().catch(() => undefined)
  }

  /**
   * Writes queued data until the queue is empty. After a failed write the queue never writes again, because the
   * connection is then closed.
   */
  async #run(): Promise<void> {
    const running: Running[] = []
    while (this.#parts.length > 0) {
      while (this.#started < this.#next && running.length < this.#most()) running.push(this.#begin(running.length > 0))
      const first = running.shift()
      if (!first) throw new Error('BUG: input without a write')
      const written = await first.written
      this.#dropUntil(Math.min(this.#next, written))
      if (written >= first.end) continue
      // The guest accepted only a part of the data, so it refuses the writes after this one. Wait for their responses,
      // then send the missing data again.
      await Promise.allSettled(running.splice(0).map(one => one.written))
      this.#started = this.#written
    }
    if (this.#closing) await this.#write(this.#written, undefined, false)
    this.#running = this.#closing
  }

  #begin(isAhead: boolean): Running {
    const offset = this.#started
    const parts = this.#unstarted()
    for (const part of parts) this.#started += part.length
    const written = this.#write(offset, parts, isAhead)
    written.catch(() => undefined)
    return { end: this.#started, written }
  }

  /** Returns the first queued parts for which no write has been started, as many as fit into one request. */
  #unstarted(): readonly Uint8Array[] {
    let from = 0
    for (let at = this.#written; at < this.#started; from++) at += this.#parts[from]?.length ?? Infinity
    let bytes = 0
    const end = this.#parts.findIndex((part, n) => n >= from && (bytes += part.length) > maxInputBytes)
    return this.#parts.slice(from, end < 0 ? undefined : Math.max(from + 1, end))
  }

  #dropUntil(position: number): void {
    let count = 0
    for (const part of this.#parts) {
      if (this.#written + part.length > position) break
      this.#written += part.length
      count++
    }
    this.#parts.splice(0, count)
    const rest = Math.max(0, position - this.#written)
    const [first] = this.#parts
    if (first && rest > 0) {
      this.#parts[0] = first.subarray(rest)
      this.#written += rest
    }
    // Skip data that a write of the client's previous connection has already delivered.
    this.#started = Math.max(this.#started, this.#written)
  }
}
