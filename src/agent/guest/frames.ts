/** One line of the workload, as the guest numbered it. A hole in `seq` means that the guest's ring dropped lines. */
export interface Frame {
  readonly seq: number
  readonly stream: 'stdout' | 'stderr' | 'system'
  /** How long the line waited in the guest before this connection, in microseconds; 0 for one that came live. */
  readonly ageUs: number
  readonly line: string
}

const streamNames = { '1': 'stdout', '2': 'stderr', '3': 'system' } as const

interface Hello {
  readonly nowUs: number
  readonly lastSeq: number
}

/**
 * Parses the log port: `H <nonce> <now_us> <last_seq>\n`, then `L <seq> <at_us> <stream> <length>\n<bytes>\n`.
 * Everything before the hello with our nonce was meant for an earlier connection and is skipped.
 */
export function frameReader(nonce: string, onFrames: (frames: readonly Frame[]) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let hello: Hello | undefined
  const helloMark = Buffer.from(`\nH ${nonce} `)
  return chunk => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    if (hello === undefined) {
      const at = rest.indexOf(helloMark)
      const end = at < 0 ? -1 : rest.indexOf(10, at + helloMark.length)
      if (end < 0) {
        // A hello is short: keep only what may be its beginning.
        if (at < 0) rest = rest.subarray(Math.max(0, rest.length - helloMark.length))
        return
      }
      const [nowUs, lastSeq] = rest
        .toString('latin1', at + helloMark.length, end)
        .split(' ')
        .map(Number)
      hello = { nowUs: nowUs ?? 0, lastSeq: lastSeq ?? 0 }
      rest = rest.subarray(end + 1)
    }
    const { frames, used } = parseFrames(rest, hello)
    rest = rest.subarray(used)
    if (frames.length > 0) onFrames(frames)
  }
}

function parseFrames(data: Buffer, hello: Hello): { frames: Frame[]; used: number } {
  const frames: Frame[] = []
  let used = 0
  for (;;) {
    const end = data.indexOf(10, used)
    if (end < 0) break
    const match = /^L (\d+) (\d+) ([123]) (\d+)$/.exec(data.toString('latin1', used, end))
    if (match === null) {
      used = end + 1
      continue
    }
    const [, seq, atUs, stream, length] = match
    const bodyEnd = end + 1 + Number(length)
    if (bodyEnd >= data.length) break
    const ageUs = Number(seq) <= hello.lastSeq ? Math.max(0, hello.nowUs - Number(atUs)) : 0
    const name = stream === '1' || stream === '2' || stream === '3' ? streamNames[stream] : 'system'
    frames.push({ seq: Number(seq), stream: name, ageUs, line: data.toString('utf8', end + 1, bodyEnd) })
    used = bodyEnd + 1
  }
  return { frames, used }
}
