/**
 * Cuts a stream into lines, whatever its parts are. Each byte is looked at once.
 * @param maxBytes of a line without its end
 * @param tooLong called for a longer one; it has to throw, or nothing more is read
 * @returns takes a part, and answers how many lines ended in it
 */
export function lineReader(
  maxBytes: number,
  onLine: (line: string) => void,
  tooLong: () => void,
): (part: Buffer) => number {
  let held: Buffer[] = []
  let heldBytes = 0
  let over = false
  return part => {
    let lines = 0
    for (let at = 0; at < part.length && !over; lines++) {
      const end = part.indexOf(10, at)
      const rest = part.subarray(at, end < 0 ? part.length : end)
      heldBytes += rest.length
      if (heldBytes > maxBytes) {
        over = true
        held = []
        tooLong()
        break
      }
      if (end < 0) {
        held.push(rest)
        break
      }
      const line = held.length === 0 ? rest : Buffer.concat([...held, rest])
      held = []
      heldBytes = 0
      at = end + 1
      onLine(line.toString('utf8'))
    }
    return lines
  }
}
