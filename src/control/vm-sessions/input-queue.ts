import { maxInputBytes } from '../../contract/agent/session.ts'
import { inputWindowBytes } from '../../contract/session-stream.ts'

/** Limits the memory that many small messages take. */
const mostMessages = 4096

/**
 * Writes parts that follow each other at this position, or closes the input. Resolves with the position that the
 * program has reached. `isAhead`: earlier writes have no answer yet. If one of them fails, the guest refuses this one, which
 * then resolves with its own position.
 */
type Write = (offset: number, parts: readonly Uint8Array[] | undefined, isAhead: boolean) => Promise<number>

interface InputQueueOptions {
  /** Of the first byte. */
  readonly position: number
  readonly write: Write
  /** How many writes may run at the same time. */
  readonly most: () => number
}

interface Running {
  readonly end: number
  readonly written: Promise<number>
}

/** Input of a client that the program has not received yet. Writes begin in the order of their data. */
export class InputQueue {
  readonly #write: Write
  readonly #most: () => number
  /** Position of the first byte in the queue. */
  #written: number
  /** Position of the first byte that no write has. */
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
   * Adds data; bytes that arrived before are ignored.
   * @returns why the client may not send this
   */
  push(position: number, data: Uint8Array): string | undefined {
    if (position > this.#next) return 'input is missing before this data'
    const fresh = data.subarray(this.#next - position)
    if (fresh.length === 0) return undefined
    if (this.#closing) return 'the input is closed'
    if (this.#next + fresh.length > this.#written + inputWindowBytes || this.#parts.length >= mostMessages)
      return 'too much input that is not confirmed yet'
    this.#parts.push(fresh)
    this.#next += fresh.length
    this.#start()
    return undefined
  }

  /** Closes the input after the data that is in the queue. */
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

  /** Stops for good when a write fails: the connection ends then. */
  async #run(): Promise<void> {
    const running: Running[] = []
    while (this.#parts.length > 0) {
      while (this.#started < this.#next && running.length < this.#most()) running.push(this.#begin(running.length > 0))
      const first = running.shift()
      if (!first) throw new Error('BUG: input without a write')
      const written = await first.written
      this.#dropUntil(Math.min(this.#next, written))
      if (written >= first.end) continue
      // The guest refuses what follows the missing data, so it is sent again.
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

  /** The first parts that no write has, as far as they fit in one request. */
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
    // Writes of an earlier connection of the client may have brought the program further.
    this.#started = Math.max(this.#started, this.#written)
  }
}
