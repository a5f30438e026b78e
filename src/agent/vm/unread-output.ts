const minBytes = 8192

/**
 * The unacknowledged output of one stream, in one buffer. A guest can send parts of one byte, and each would take a
 * hundred times as much memory as an object of its own.
 */
export class UnreadOutput {
  #buffer = Buffer.alloc(0)
  #start = 0
  #end = 0
  /** Position of the first stored byte in the stream. */
  #offset: number
  #lostBytes = 0

  constructor(offset: number) {
    this.#offset = offset
  }

  get offset(): number {
    return this.#offset
  }

  get next(): number {
    return this.#offset + this.#lostBytes + this.#end - this.#start
  }

  /**
   * Appends data.
   * @param lostBytes size of the gap before the data; only the first data of an attachment can follow a gap
   */
  push(data: Buffer, lostBytes: number): void {
    this.#lostBytes += lostBytes
    if (this.#end + data.length > this.#buffer.length) this.#makeRoom(data.length)
    data.copy(this.#buffer, this.#end)
    this.#end += data.length
  }

  /** Drops all bytes before the offset, which is at most `next`. */
  dropUntil(offset: number): void {
    if (offset <= this.#offset) return
    const dropped = offset - this.#offset
    const gap = Math.min(this.#lostBytes, dropped)
    this.#lostBytes -= gap
    this.#start += dropped - gap
    this.#offset = offset
  }

  /**
   * Returns at most `most` bytes that begin at the offset `from`, which is between `offset` and `next`. The returned
   * data is valid until the next `push`.
   */
  read(from: number, most = Infinity): { readonly offset: number; readonly lostBytes: number; readonly data: Buffer } {
    const skipped = from - this.#offset
    const lostBytes = Math.max(0, this.#lostBytes - skipped)
    const start = this.#start + Math.max(0, skipped - this.#lostBytes)
    const data = this.#buffer.subarray(start, Math.min(this.#end, start + most))
    return { offset: from + lostBytes, lostBytes, data }
  }

  /**
   * Makes room for more bytes. Afterwards, at least half of the buffer is free, so that each byte is only moved about
   * once.
   */
  #makeRoom(bytes: number): void {
    const held = this.#buffer.subarray(this.#start, this.#end)
    const wanted = Math.max(minBytes, 2 * (held.length + bytes))
    const target = this.#buffer.length >= wanted ? this.#buffer : Buffer.allocUnsafe(wanted)
    target.set(held)
    this.#buffer = target
    this.#start = 0
    this.#end = held.length
  }
}
