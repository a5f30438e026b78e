/** Reads a given number of bytes at a time from a stream of arbitrary chunks. */
export interface ByteReader {
  /** Reads exactly this number of bytes. @throws Error when the stream ends early */
  read(count: number): Promise<Buffer>
  /** Like `read`, but yields the bytes in pieces, so that large amounts are not held in memory. */
  pieces(count: number): AsyncGenerator<Buffer>
}

export function byteReader(source: AsyncIterator<Buffer, unknown>): ByteReader {
  let rest: Buffer = Buffer.alloc(0)
  const more = async (): Promise<Buffer> => {
    const next = await source.next()
    if (next.done === true || !Buffer.isBuffer(next.value)) throw new Error('the stream ended in the middle')
    return next.value
  }
  return {
    async read(count) {
      while (rest.length < count) rest = Buffer.concat([rest, await more()])
      const taken = rest.subarray(0, count)
      rest = rest.subarray(count)
      return taken
    },
    async *pieces(count) {
      for (let left = count; left > 0; ) {
        if (rest.length === 0) rest = await more()
        const piece = rest.subarray(0, left)
        rest = rest.subarray(piece.length)
        left -= piece.length
        yield piece
      }
    },
  }
}
