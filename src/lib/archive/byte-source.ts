import { unreadable } from './fault.ts'

/** Reads pieces of given lengths from a stream. Holds at most one chunk of the stream and one result in memory. */
export class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #onBytes: (count: number) => void
  #chunk: Buffer = Buffer.alloc(0)

  /**
   * Creates a source of bytes. @param onBytes called with the length of each chunk before the chunk is used; may throw
   */
  constructor(source: AsyncIterable<Buffer>, onBytes: (count: number) => void) {
    this.#chunks = source[Symbol.asyncIterator]()
    this.#onBytes = onBytes
  }

  /** Returns the next bytes, at most `most`; undefined at the end. */
  async some(most: number): Promise<Buffer | undefined> {
    while (this.#chunk.length === 0) {
      const next = await this.#chunks.next()
      if (next.done === true) return undefined
      this.#onBytes(next.value.length)
      this.#chunk = next.value
    }
    const taken = this.#chunk.subarray(0, most)
    this.#chunk = this.#chunk.subarray(taken.length)
    return taken
  }

  /**
   * Returns the next `length` bytes; undefined at the end. @throws ArchiveFault if the stream ends before `length`
   * bytes
   */
  async exactly(length: number): Promise<Buffer | undefined> {
    const first = await this.some(length)
    if (first === undefined || first.length === length) return first
    const whole = Buffer.alloc(length)
    let used = first.copy(whole)
    while (used < length) {
      const next = await this.some(length - used)
      if (next === undefined) throw unreadable('it ends early')
      used += next.copy(whole, used)
    }
    return whole
  }

  async close(): Promise<void> {
    await this.#chunks.return?.()
  }
}
