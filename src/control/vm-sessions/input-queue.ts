import { maxInputBytes } from '../../contract/agent/session.ts'
import { inputWindowBytes } from '../../contract/session-stream.ts'

/** Limits the memory that many small messages take. */
const mostMessages = 4096

/**
 * Writes parts that follow each other at this position, or closes the input. Resolves with the position that the
 * program has reached.
 */
type Write = (offset: number, parts: readonly Uint8Array[] | undefined) => Promise<number>

/** Input of a client that the program has not received yet. One write runs at a time. */
export class InputQueue {
  readonly #write: Write
  /** Position of the first byte in the queue. */
  #written: number
  #next: number
  #parts: Uint8Array[] = []
  #closing = false
  #running = false

  constructor(position: number, write: Write) {
    this.#write = write
    this.#written = this.#next = position
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
    while (this.#parts.length > 0) {
      const written = await this.#write(this.#written, this.#first())
      this.#dropUntil(Math.min(this.#next, written))
    }
    if (this.#closing) await this.#write(this.#written, undefined)
    this.#running = this.#closing
  }

  /** The first parts, as far as they fit in one request. */
  #first(): readonly Uint8Array[] {
    let bytes = 0
    const end = this.#parts.findIndex(part => (bytes += part.length) > maxInputBytes)
    return end < 0 ? [...this.#parts] : this.#parts.slice(0, Math.max(1, end))
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
    if (!first || rest === 0) return
    this.#parts[0] = first.subarray(rest)
    this.#written += rest
  }
}
