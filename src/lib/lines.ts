/**
 * Creates a reader that splits a stream into lines, however it is chunked. Each byte is processed once, and empty lines
 * are skipped.
 * @param maxBytes maximum length of a line, without its line break
 * @param tooLong called once for a longer line; reading stops then
 * @returns a function that takes a chunk and returns how many lines ended in it
 */
export function lineReader(
  maxBytes: number,
  onLine: (line: string) => void,
  tooLong: () => void,
): (part: Buffer) => number {
  let held: Buffer[] = []
  let heldBytes = 0
  let over = false
  const end = () => {
    over = true
    held = []
    tooLong()
  }
  const hold = (rest: Buffer) => {
    heldBytes += rest.length
    if (heldBytes > maxBytes) end()
    else if (rest.length > 0) held.push(rest)
  }
  return part => {
    if (over) return 0
    const last = part.lastIndexOf(10)
    if (last < 0) {
      hold(part)
      return 0
    }
    const whole = Buffer.concat([...held, part.subarray(0, last)])
    held = []
    heldBytes = 0
    // Decode the whole text at once, because a chunk may have thousands of lines.
    const lines = whole.toString('utf8').split('\n')
    for (const line of lines) {
      if (line.length > maxBytes) {
        end()
        return lines.length
      }
      if (line !== '') onLine(line)
    }
    hold(part.subarray(last + 1))
    return lines.length
  }
}

/**
 * Like `lineReader`, but with lines as bytes. A line is only valid during the call of `onLine`, which may change it,
 * and a chunk only during the call of the returned function.
 * @returns a function that takes a chunk and returns how many lines ended in it
 */
export function byteLineReader(
  maxBytes: number,
  onLine: (line: Buffer) => void,
  tooLong: () => void,
): (part: Buffer) => number {
  // The beginning of a line whose end has not arrived yet. The buffer is reused.
  let held: Buffer = Buffer.alloc(0)
  let heldBytes = 0
  let over = false
  const hold = (rest: Buffer) => {
    if (heldBytes + rest.length > maxBytes) over = true
    if (over || rest.length === 0) return
    if (heldBytes + rest.length > held.length) held = grown(held, heldBytes, heldBytes + rest.length, maxBytes)
    rest.copy(held, heldBytes)
    heldBytes += rest.length
  }
  const take = (rest: Buffer) => {
    if (heldBytes > 0) hold(rest)
    const line = heldBytes > 0 ? held.subarray(0, heldBytes) : rest
    heldBytes = 0
    if (line.length > maxBytes) over = true
    if (!over && line.length > 0) onLine(line)
  }
  return part => {
    let count = 0
    let from = 0
    for (let end = part.indexOf(10); end >= 0 && !over; end = part.indexOf(10, from)) {
      take(part.subarray(from, end))
      count++
      from = end + 1
    }
    if (!over) hold(part.subarray(from))
    if (over) {
      held = Buffer.alloc(0)
      tooLong()
    }
    return count
  }
}

/**
 * Returns a copy of the buffer that is at least twice as large, so that growing is rare. The first buffer is small,
 * because most lines are short.
 */
function grown(held: Buffer, used: number, wanted: number, most: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.min(most, Math.max(wanted, 2 * held.length, 512)))
  held.copy(larger, 0, 0, used)
  return larger
}
