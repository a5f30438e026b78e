const minBytes = 8192

/**
 * The unacknowledged output of one stream, in one buffer: a guest can send parts of one byte, which would take a
 * hundred times their size as separate objects.
 */
export class UnreadOutput {
  #buffer = Buffer.alloc(0)
  #start = 0
  #end = 0
  /** Offset of the first byte. */
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

  /** Appends data. @param lostBytes size of the gap before the data; only the first data can have one */
  push(data: Buffer, lostBytes: number): void {
    this.#lostBytes += lostBytes
    if (this.#end + data.length > this.#buffer.length) this.#makeRoom(data.length)
    data.copy(this.#buffer, this.#end)
    this.#end += data.length
  }

  /** Drops everything before the offset, which is at most `next`. */
  dropUntil(offset: number): void {
    if (offset <= this.#offset) return
    const dropped = offset - this.#offset
    const gap = Math.min(this.#lostBytes, dropped)
    this.#lostBytes -= gap
    this.#start += dropped - gap
    this.#offset = offset
  }

  /**
   * Returns at most `most` bytes of what follows `from`, which is between `offset` and `next`. The data is valid until
   * the next `push`.
   */
  read(from: number, most = Infinity): { readonly offset: number; readonly lostBytes: number; readonly data: Buffer } {
    const skipped = from - this.#offset
    const lostBytes = Math.max(0, this.#lostBytes - skipped)
    const start = this.#start + Math.max(0, skipped - this.#lostBytes)
    const data = this.#buffer.subarray(start, Math.min(this.#end, start + most))
    return { offset: from + lostBytes, lostBytes, data }
  }

  /** Makes room for more bytes. At least half of the buffer is free afterwards, so each byte is moved about once. */
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
