/** Sessions: processes in a guest with input, output and signals, which continue without their client or the agent. */
import { randomBytes } from 'node:crypto'
import { StepError } from '../base/step-error.ts'
import { type GuestChannel, GuestRefusal, type RequestOptions } from './channel.ts'
import { GuestFault } from './fault.ts'
import { RecordInput } from './record-input.ts'
import { parseRecord } from './records.ts'
import {
  checkId,
  checkListed,
  maxBacklogBytes,
  maxInputBytes,
  maxOpenBytes,
  type Offsets,
  openLine,
  parseEnd,
  parseLimits,
  parseOpened,
  parsePart,
  parseRow,
  parseWritten,
  type RecordLimits,
  type SessionEnd,
  type SessionRow,
  type SessionStart,
  type TerminalSize,
} from './session-words.ts'

const answerMs = 5_000
/** Timeout of one input request. A program may take longer to read its input; the client then repeats the request. */
const inputMs = 20_000
/**
 * Bytes of each stream that the guest sends before it waits for an acknowledgment. A larger window gives more
 * throughput, but the agent may have to buffer all of it, so only `mostLargeWindows` sessions of a guest get a window
 * of this size.
 */
const largeWindowBytes = 1 << 21
const mostLargeWindows = 4
/**
 * Maximum number of sessions. The guest has the same limit (SESSIONS_MAX in guest/mote.h), but root in the guest can
 * bypass it.
 */
const maxSessions = 16

export interface SessionData {
  readonly stream: keyof Offsets
  readonly offset: number
  /** Number of bytes before `offset` that this client has not received and the guest no longer retains. */
  readonly lostBytes: number
  /** The output, valid only during the `onData` call. */
  readonly data: Buffer
}

export interface Attachment {
  /** Resolves when the session has ended and all its output was delivered. Rejects if the attachment ends earlier. */
  readonly ended: Promise<SessionEnd>
  /** Bytes of each output stream that the guest sends before it waits for an acknowledgment. */
  windowBytes(): number
  /**
   * Acknowledges the stream's bytes before position `until`. The guest then sends more, and may drop the acknowledged
   * bytes.
   */
  ack(stream: keyof Offsets, until: number): void
  /** Ends the attachment. The process of the session continues. */
  detach(): Promise<void>
}

/**
 * Every method throws StepError: `exec_failed` when the guest cannot be reached, `session_missing`, or
 * `session_refused` with the reason that the guest gave.
 */
export interface GuestSessions {
  /** Starts a session with a program, without a shell and without a time limit. */
  open(start: SessionStart): Promise<{ readonly pid: number }>
  /** Starts to deliver the session's output from these offsets. Replaces an earlier attachment to the session. */
  attach(sessionId: string, from: Offsets, onData: (part: SessionData) => void): Attachment
  /**
   * Writes to the program's input. Resolves with the total number of input bytes received, which may not include all
   * of `data`. No byte is written twice, so a call that timed out because the program does not read can be repeated.
   * With records, the calls of a session may overlap; their data is sent in the order of the calls.
   */
  input(sessionId: string, offset: number, data: Buffer): Promise<number>
  closeInput(sessionId: string): Promise<void>
  resize(sessionId: string, size: TerminalSize): Promise<void>
  /** Signals the process group and the foreground group of a terminal. SIGKILL (9) ends all processes of the session. */
  signal(sessionId: string, number: number): Promise<void>
  list(): Promise<readonly SessionRow[]>
  /**
   * Ends the session's current attachment, whichever client created it. From then on, the guest may drop unread output.
   */
  release(sessionId: string): Promise<void>
  /** Removes an ended session from the guest's table of sessions. */
  remove(sessionId: string): Promise<void>
}

export function sessionsOf(guest: GuestChannel): GuestSessions {
  const ask: Ask = (line, timeoutMs = answerMs, options) =>
    guest
      .request(line, timeoutMs, options)
      .catch((error: unknown) => Promise.reject(StepError.wrap(codeOf(error), error)))
  const records = recordLimits(ask)
  const windows = { large: 0 }
  const inputs = new Map<string, RecordInput>()
  const to = (sessionId: string, verb: string, ...rest: readonly (string | number)[]) => {
    checkId(sessionId)
    return [`session.${verb}`, sessionId, ...rest].join(' ')
  }
  return {
    async open(start) {
      const line = openLine(start)
      if (line.length > maxOpenBytes)
        throw new StepError('invalid_request', `a command and its environment can have at most ${maxOpenBytes} bytes`)
      return { pid: parseOpened(await ask(line)) }
    },
    attach: (sessionId, from, onData) => attachTo({ ask, to, records, windows }, sessionId, from, onData),
    async input(sessionId, offset, data) {
      const limits = await records.known()
      const lineAt = (at: number) => to(sessionId, limits ? 'put' : 'input', at)
      if (!limits) return inputAll((at, part, leftMs) => ask(`${lineAt(offset + at)} ${part}`, leftMs), offset, data)
      const known = inputs.get(sessionId)
      const input = known ?? new RecordInput(limits.inputBytes, (at, record) => ask(lineAt(at), inputMs, { record }))
      if (!known) inputs.set(sessionId, input)
      try {
        return await input.put(offset, data)
      } finally {
        if (input.isIdle) inputs.delete(sessionId)
      }
    },
    closeInput: async sessionId => void (await ask(to(sessionId, 'eof'))),
    resize: async (sessionId, { rows, columns }) => void (await ask(to(sessionId, 'resize', rows, columns))),
    signal: async (sessionId, number) => void (await ask(to(sessionId, 'signal', number))),
    async list() {
      const rows: SessionRow[] = []
      const onPart = (_: 'o' | 'e', text: string) => {
        if (rows.length === maxSessions) throw new GuestFault(`more than ${maxSessions} sessions`)
        rows.push(parseRow(text))
      }
      checkListed(await ask('session.list', answerMs, { onPart }))
      return rows
    },
    release: async sessionId => void (await ask(to(sessionId, 'detach', '*'))),
    remove: async sessionId => void (await ask(to(sessionId, 'remove'))),
  }
}

/**
 * Maps an error to a StepError code. `exec_failed` means that the guest did not answer, so the request may be repeated.
 */
function codeOf(error: unknown): string {
  if (!(error instanceof GuestRefusal)) return 'exec_failed'
  return error.answer === 'no such session' ? 'session_missing' : 'session_refused'
}

type Ask = (line: string, timeoutMs?: number, options?: RequestOptions) => Promise<string>
type Line = (sessionId: string, verb: string, ...rest: readonly (string | number)[]) => string

/**
 * Queries once whether the init supports records, and its limits. An older init refuses the command `session.limits`.
 */
function recordLimits(ask: Ask) {
  let asked: Promise<RecordLimits | undefined> | undefined
  const known = async () => {
    asked ??= ask('session.limits').then(parseLimits, (error: unknown) => {
      if (error instanceof StepError && error.code !== 'exec_failed') return undefined
      asked = undefined
      throw error
    })
    return asked
  }
  return { known }
}

/**
 * Sends input in base64, for a guest without support for records. Resolves with the number of input bytes that the
 * guest received.
 */
async function inputAll(
  ask: (at: number, part: string, leftMs: number) => Promise<string>,
  offset: number,
  data: Buffer,
): Promise<number> {
  const untilMs = performance.now() + inputMs
  let received = offset
  // The guest accepts 64 KiB per line, so input of a client is sent in several lines, which saves the client round
  // trips.
  for (let at = 0; at === 0 || at < data.length; at += maxInputBytes) {
    const part = data.toString('base64', at, at + maxInputBytes)
    try {
      received = parseWritten(await ask(at, part, Math.max(1, untilMs - performance.now())))
    } catch (error) {
      if (at === 0) throw error
      break
    }
  }
  return received
}

interface Attaching {
  readonly ask: Ask
  readonly to: Line
  readonly records: ReturnType<typeof recordLimits>
  /** Number of attachments that currently have a large window. */
  readonly windows: { large: number }
}

function attachTo(
  { ask, to, records, windows }: Attaching,
  sessionId: string,
  from: Offsets,
  onData: (part: SessionData) => void,
): Attachment {
  const token = randomBytes(8).toString('hex')
  const isLarge = windows.large < mostLargeWindows
  if (isLarge) windows.large += 1
  const streams = { stdout: receiver(from.stdout), stderr: receiver(from.stderr) }
  const take = (kind: 'o' | 'e', part: { readonly offset: number; readonly data: Buffer }) => {
    const stream = kind === 'o' ? 'stdout' : 'stderr'
    onData({ stream, ...streams[stream].take(part) })
  }
  const attached = async () => {
    const limits = await records.known()
    const windowBytes = limits && isLarge ? Math.min(limits.windowBytes, largeWindowBytes) : maxBacklogBytes
    for (const stream of Object.values(streams)) stream.open(windowBytes)
    const words = [token, windowBytes, from.stdout, from.stderr]
    return limits
      ? ask(to(sessionId, 'stream', ...words), 0, { onRecord: (kind, record) => take(kind, parseRecord(record)) })
      : ask(to(sessionId, 'attach', ...words), 0, { onPart: (kind, text) => take(kind, parsePart(text)) })
  }
  const ended = attached()
    .then(answer => {
      const end = parseEnd(answer)
      for (const stream of ['stdout', 'stderr'] as const)
        if (streams[stream].next() !== end.total[stream]) throw new GuestFault('a session ended before its output')
      return end
    })
    .finally(() => {
      if (isLarge) windows.large -= 1
    })
  ended.catch(() => undefined)
  return {
    ended,
    windowBytes: streams.stdout.windowBytes,
    ack(stream, until) {
      if (!streams[stream].ack(until)) return
      const { stdout, stderr } = streams
      // A lost acknowledgment is not repeated: the next acknowledgment or attachment contains the newer offsets.
      ask(to(sessionId, 'ack', token, stdout.acked(), stderr.acked())).catch(() => undefined)
    },
    detach: async () => void (await ask(to(sessionId, 'detach', token))),
  }
}

/** Checks that the output of one stream has no gaps and stays within the window. */
function receiver(from: number) {
  let windowBytes = maxBacklogBytes
  let next = from
  let processed = from
  let acked = from
  let first = true
  return {
    open(bytes: number) {
      windowBytes = bytes
    },
    windowBytes: () => windowBytes,
    next: () => next,
    acked: () => acked,
    /**
     * Returns true after each quarter of the window, when the host should acknowledge. More acknowledgments would cost
     * more lines in both directions.
     */
    ack(until: number): boolean {
      processed = Math.min(next, Math.max(processed, until))
      if (processed - acked < windowBytes / 4) return false
      acked = processed
      return true
    },
    take({ offset, data }: { readonly offset: number; readonly data: Buffer }): Omit<SessionData, 'stream'> {
      const lostBytes = offset - next
      if (lostBytes < 0 || (lostBytes > 0 && !first)) throw new GuestFault('the output of a session has a gap')
      // At an attachment, the window begins at the first byte that the guest still retains.
      if (first) acked = processed = offset
      if (offset + data.length > acked + windowBytes) throw new GuestFault('a session sent more than its window')
      first = false
      next = offset + data.length
      return { offset, lostBytes, data }
    },
  }
}
