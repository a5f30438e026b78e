import { GuestFault } from './fault.ts'

/**
 * One log line of the workload, numbered by the guest. A gap in `seq` means that the guest's ring buffer dropped lines.
 */
export interface Frame {
  readonly seq: number
  readonly stream: 'stdout' | 'stderr' | 'system'
  /**
   * How long the line waited in the guest before this connection, in microseconds; 0 for a line that was written later.
   */
  readonly ageUs: number
  readonly line: string
}

const streamNames = { '1': 'stdout', '2': 'stderr', '3': 'system' } as const

interface Hello {
  readonly nowUs: number
  readonly lastSeq: number
}

/** Maximum length of a line in the guest's ring buffer (guest/ports.c). */
export const maxFrameBytes = 8192
/** Maximum length of a valid `L` or `H` line. */
const maxHeaderBytes = 96
/** Maximum number of lines without a frame that are skipped: an earlier connection may have left some in the port. */
const maxNoiseLines = 64

/**
 * Parses the log port: `H <nonce> <now_us> <last_seq>\n`, then `L <seq> <at_us> <stream> <length>\n<bytes>\n`. Skips
 * everything before the `H` line with this connection's nonce, because it belongs to an earlier connection.
 * @returns a function that takes a chunk of the stream, returns its number of frames, and throws GuestFault
 */
export function frameReader(nonce: string, onFrames: (frames: readonly Frame[]) => void): (chunk: Buffer) => number {
  let rest: Buffer = Buffer.alloc(0)
  let hello: Hello | undefined
  let noise = 0
  const helloMark = Buffer.from(`\nH ${nonce} `)
  const take = () => {
    if (hello === undefined) {
      const at = rest.indexOf(helloMark)
      const end = at < 0 ? -1 : rest.indexOf(10, at + helloMark.length)
      // Keep only bytes that may be the beginning of a hello line.
      if (at < 0) rest = rest.subarray(Math.max(0, rest.length - helloMark.length))
      else if ((end < 0 ? rest.length : end) - at > helloMark.length + maxHeaderBytes)
        throw new GuestFault('the hello is too long')
      if (end < 0) return 0
      hello = parseHello(rest.toString('latin1', at + helloMark.length, end))
      rest = rest.subarray(end + 1)
    }
    const { frames, used, skipped, fault } = parseFrames(rest, hello)
    rest = rest.subarray(used)
    noise += skipped
    if (frames.length > 0) onFrames(frames)
    if (fault) throw fault
    if (noise > maxNoiseLines) throw new GuestFault('the log port has lines that are not frames')
    return frames.length
  }
  return chunk => {
    // A cheap copy: the unparsed rest of the previous chunk is shorter than a frame with its header.
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const count = take()
    // Copy the rest, because the chunk is valid only during the call.
    if (rest.buffer === chunk.buffer) rest = Buffer.from(rest)
    return count
  }
}

function parseHello(text: string): Hello {
  const [, nowUs, lastSeq] = /^(\d{1,15}) (\d{1,15})$/.exec(text) ?? []
  if (nowUs === undefined) throw new GuestFault('the hello has no numbers')
  return { nowUs: Number(nowUs), lastSeq: Number(lastSeq) }
}

interface Parsed {
  readonly frames: readonly Frame[]
  readonly used: number
  /** Number of skipped lines that are not frames. */
  readonly skipped: number
  readonly fault: GuestFault | undefined
}

const frameHeader = /^L (\d{1,15}) (\d{1,15}) ([123]) (\d{1,4})$/

function parseFrames(data: Buffer, hello: Hello): Parsed {
  const frames: Frame[] = []
  let used = 0
  let skipped = 0
  const result = (fault?: GuestFault): Parsed => ({ frames, used, skipped, fault })
  while (skipped <= maxNoiseLines) {
    const end = data.indexOf(10, used)
    if ((end < 0 ? data.length : end) - used > maxHeaderBytes) return result(new GuestFault('a header is too long'))
    if (end < 0) break
    const match = frameHeader.exec(data.toString('latin1', used, end))
    if (match === null) {
      used = end + 1
      skipped += 1
      continue
    }
    const [, seq, atUs, stream, length] = match
    if (Number(length) > maxFrameBytes) return result(new GuestFault('a log line is too long'))
    const bodyEnd = end + 1 + Number(length)
    if (bodyEnd >= data.length) break
    const ageUs = Number(seq) <= hello.lastSeq ? Math.max(0, hello.nowUs - Number(atUs)) : 0
    const name = stream === '1' || stream === '2' || stream === '3' ? streamNames[stream] : 'system'
    frames.push({ seq: Number(seq), stream: name, ageUs, line: data.toString('utf8', end + 1, bodyEnd) })
    used = bodyEnd + 1
  }
  return result()
}
