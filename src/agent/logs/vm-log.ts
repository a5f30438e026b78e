/** The logs of VMs: stored on disk, limited in rate, and published on the bus in batches. */
import type { LogBatch, LogStream, VmLogsRequest } from '../../contract/agent.ts'
import type { Frame } from '../guest/frames.ts'
import { type LogFile, logFile } from './file.ts'
import { type StoredLine, toLogLine } from './line.ts'
import { lineLimit, type LogLimits } from './limit.ts'

export interface VmLogDeps {
  readonly vmId: string
  readonly dir: string
  readonly limits: LogLimits
  /** Stream that all lines of the log get; default: the stream that each line came from. */
  readonly stream?: LogStream
  readonly publish: (batch: Omit<LogBatch, 'deploymentId'>) => Promise<void>
  readonly onError: (error: unknown) => void
  readonly nowMs: () => number
}

/** The log of one VM: limited in disk space and rate, and published in batches. */
export interface VmLog {
  /** Adds a line of the host to the VM's log. */
  say(line: string): void
  /**
   * Adds lines of the guest. Calls `ack` with the number of the last frame once this frame and all earlier ones are on
   * disk.
   */
  frames(boot: number, frames: readonly Frame[], ack: (seq: number) => void): void
  /**
   * Accepts any number for the guest's next line in this boot, because the guest was restored from a snapshot or came
   * from another host.
   */
  join(boot: number): void
  /** Returns the number of the last frame of this boot that is on disk; 0 if none is. */
  lastSeq(boot: number): Promise<number>
  read(request: Pick<VmLogsRequest, 'tail' | 'afterUs'>): Promise<StoredLine[]>
  /** Resolves once all lines added so far are on disk and published on the bus. */
  flush(): Promise<void>
}

const batchLines = 256
/** How long lines wait for others in their batch: long enough to batch a busy log, short enough for live viewing. */
const batchMs = 40
const maxLineChars = 16_384
/** Limit on the lines that one gap in the numbering counts as lost, because the guest chooses the numbers. */
const mostLost = 1_000_000

export function vmLog(deps: VmLogDeps): VmLog {
  const file = logFile(deps.dir, deps.limits.maxBytes)
  const limit = lineLimit(deps.limits, deps.nowMs)
  let pending: StoredLine[] = []
  let acks: Array<() => void> = []
  let dropped = 0
  let lastUs = 0
  let nextSeq: { boot: number; seq: number } | undefined
  let joined: number | undefined
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  const add = (stream: LogStream, text: string, ageUs: number, boot: number, seq: number) => {
    lastUs = Math.max(lastUs + 1, Math.round(deps.nowMs() * 1000) - ageUs)
    pending.push({
      atUs: lastUs,
      stream: deps.stream ?? stream,
      line: text.slice(0, maxLineChars).replaceAll('\n', ' '),
      boot,
      seq,
    })
    if (pending.length >= batchLines) flushSoon(0)
    else flushSoon(batchMs)
  }
  const flushSoon = (ms: number) => {
    if (ms > 0 && timer !== undefined) return
    clearTimeout(timer)
    timer = setTimeout(flush, ms)
  }
  const flush = (): Promise<void> => {
    clearTimeout(timer)
    timer = undefined
    writing = writing.then(async () => {
      const work = { lines: pending, acks, dropped }
      pending = []
      acks = []
      dropped = 0
      if (work.lines.length === 0 && work.dropped === 0) return
      await store(deps, file, work).catch(deps.onError)
    })
    return writing
  }
  return {
    flush,
    say: line => add('system', line, 0, 0, 0),
    frames(boot, frames, ack) {
      for (const frame of frames) {
        // A gap in the guest's numbering means that the guest's ring buffer overflowed before the agent read it.
        const expected = nextSeq?.boot === boot ? nextSeq.seq : joined === boot ? frame.seq : 1
        dropped += Math.min(mostLost, Math.max(0, frame.seq - expected))
        nextSeq = { boot, seq: frame.seq + 1 }
        if (limit.take(frame.line.length)) add(frame.stream, frame.line, frame.ageUs, boot, frame.seq)
        else dropped += 1
      }
      const last = frames.at(-1)
      if (last) acks.push(() => ack(last.seq))
      flushSoon(batchMs)
    },
    join: boot => {
      joined = boot
    },
    async lastSeq(boot) {
      await flush()
      const lines = await file.read()
      lastUs = Math.max(lastUs, lines.at(-1)?.atUs ?? 0)
      const seq = lines.findLast(line => line.boot === boot)?.seq ?? 0
      nextSeq = { boot, seq: seq + 1 }
      return seq
    },
    async read({ tail, afterUs }) {
      await flush()
      return file.newest(tail, afterUs)
    },
  }
}

interface Work {
  readonly lines: readonly StoredLine[]
  readonly acks: ReadonlyArray<() => void>
  readonly dropped: number
}

/**
 * Writes lines to disk, lets the guest discard them, and then publishes them. A crash at any point neither loses a line
 * nor stores it twice.
 */
async function store(deps: VmLogDeps, file: LogFile, { lines, acks, dropped }: Work): Promise<void> {
  if (lines.length > 0) await file.append(lines)
  for (const ack of acks) ack()
  for (let at = 0; at === 0 || at < lines.length; at += batchLines) {
    const part = lines.slice(at, at + batchLines).map(toLogLine)
    await deps.publish({ vmId: deps.vmId, dropped: at === 0 ? dropped : 0, lines: part })
  }
}
