/**
 * Splits a stream into lines, however it is chunked. Each byte is processed once; empty lines are skipped.
 * @param maxBytes of a line without its end
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
    // Converted together, because a chunk may have thousands of lines.
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
 * Like `lineReader`, with lines as bytes. A line is valid only during the call of `onLine`, which may change it.
 * @returns a function that takes a chunk and returns how many lines ended in it
 */
export function byteLineReader(
  maxBytes: number,
  onLine: (line: Buffer) => void,
  tooLong: () => void,
): (part: Buffer) => number {
  let held: Buffer[] = []
  let heldBytes = 0
  let over = false
  const take = (line: Buffer) => {
    if (line.length > maxBytes) over = true
    else if (line.length > 0) onLine(line)
  }
  return part => {
    let count = 0
    let from = 0
    for (let end = part.indexOf(10); end >= 0 && !over; end = part.indexOf(10, from)) {
      const rest = part.subarray(from, end)
      take(held.length === 0 ? rest : Buffer.concat([...held, rest], heldBytes + rest.length))
      if (held.length > 0) held = []
      heldBytes = 0
      count++
      from = end + 1
    }
    const rest = part.subarray(from)
    heldBytes += rest.length
    if (heldBytes > maxBytes) over = true
    if (over) {
      held = []
      tooLong()
      return count
    }
    if (rest.length > 0) held.push(rest)
    return count
  }
}
