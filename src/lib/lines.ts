/**
 * Cuts a stream into lines, whatever its parts are. Each byte is looked at once; empty lines are skipped.
 * @param maxBytes of a line without its end
 * @param tooLong called for a longer one, once; nothing more is read then
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
    // At once: a part may have thousands.
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
