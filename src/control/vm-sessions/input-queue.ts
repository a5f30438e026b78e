import { maxInputBytes } from '../../contract/agent/session.ts'
import { inputWindowBytes } from '../../contract/session-stream.ts'

/** Limits the memory that many small messages take. */
const mostMessages = 4096

/** Writes `data` at this position, or closes the input. Resolves with the position that the program has reached. */
type Write = (offset: number, data: Buffer | undefined) => Promise<number>

/** Input of a client that the program has not received yet. One write runs at a time. */
export class InputQueue {
  readonly #write: Write
  /** Position of the first byte in the queue. */
  #written: number
  #next: number
  #parts: Buffer[] = []
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
  push(position: number, data: Buffer): string | undefined {
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
      const data = this.#take()
      const end = this.#written + data.length
      while (this.#written < end) {
        const from = data.length - (end - this.#written)
        this.#written = Math.min(end, Math.max(this.#written, await this.#write(this.#written, data.subarray(from))))
      }
    }
    if (this.#closing) await this.#write(this.#written, undefined)
    this.#running = this.#closing
  }

  /** The first parts together, as far as they fit in one request. */
  #take(): Buffer {
    let bytes = 0
    let count = 0
    for (const part of this.#parts) {
      if (count > 0 && bytes + part.length > maxInputBytes) break
      bytes += part.length
      count++
    }
    const [first = Buffer.alloc(0), ...rest] = this.#parts.splice(0, count)
    return rest.length === 0 ? first : Buffer.concat([first, ...rest], bytes)
  }
}
