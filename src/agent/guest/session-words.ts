/** Builds session commands and parses the answers; both are lines of words. guest/session.c is the guest's side. */
import { type Static, Type } from 'typebox'
import { StepError } from '../base/step-error.ts'
import { Count, ExitCode, parseWords } from './answers.ts'
import { GuestFault } from './fault.ts'
import { encodeWord } from '../../lib/words.ts'

/** Version of the session protocol, which the guest reports in its answer to `session.list`. */
export const sessionProtocol = 1
/**
 * Bytes that the guest retains of each output stream (BACKLOG_MAX in guest/mote.h). Also the largest window without
 * records.
 */
export const maxBacklogBytes = 1 << 18
/** Maximum size of the input in one request without records. */
export const maxInputBytes = 1 << 16
/** Maximum length of one part of the output in base64 (CHUNK in guest/session-pump.c). */
const maxPartChars = 32_768
/** Maximum length of a `session.open` line. The guest reads lines of at most 128 KiB. */
export const maxOpenBytes = 120_000

export interface TerminalSize {
  readonly rows: number
  readonly columns: number
}

export interface SessionStart {
  /** Id of the session, chosen by the host: at most 39 letters, digits and hyphens. */
  readonly sessionId: string
  /** Program and arguments. Exactly one of `command`, `port` and `socket` is set. */
  readonly command?: readonly string[]
  /** A TCP port in the guest. The session connects to it and runs no program. */
  readonly port?: number
  /** Path of a unix socket in the guest. The session connects to it and runs no program. */
  readonly socket?: string
  /** True if `command` is a file tool of the guest's init (guest/files.c) with its arguments. */
  readonly fileTool?: boolean
  /** True if the arguments after the first one are percent-encoded, for paths that are not UTF-8. */
  readonly encodedArguments?: boolean
  /** Variables that are added to the environment of the image's program, or replace its variables. */
  readonly env?: Readonly<Record<string, string>>
  /** Working directory. Default: that of the image. */
  readonly cwd?: string
  /** Name or number of the user that runs the program. Default: the image's user. */
  readonly user?: string
  /** Size of the terminal in which the program runs; its output is all `stdout`. Undefined: no terminal. */
  readonly tty?: TerminalSize
  /** True if the program gets a pipe as standard input instead of /dev/null. In a terminal, it always has input. */
  readonly input?: boolean
}

/** Byte positions in the two output streams of a session. */
export interface Offsets {
  readonly stdout: number
  readonly stderr: number
}

const idPattern = /^[A-Za-z0-9-]{1,39}$/

export function openLine(start: SessionStart): string {
  checkId(start.sessionId)
  const words = Object.entries(start.env ?? {}).map(([name, value]) => `env=${encodeWord(`${name}=${value}`)}`)
  if (start.cwd !== undefined) words.push(`cwd=${encodeWord(start.cwd)}`)
  if (start.user !== undefined) words.push(`user=${encodeWord(start.user)}`)
  if (start.tty) words.push(`tty=${start.tty.rows}x${start.tty.columns}`)
  if (start.input) words.push('input=1')
  if (start.fileTool) words.push('tool=1')
  if (start.port !== undefined) words.push(`tcp=${start.port}`)
  if (start.socket !== undefined) words.push(`unix=${encodeWord(start.socket)}`)
  const encode = start.encodedArguments ? encodedWord : encodeWord
  words.push(
    ...(start.command ?? []).map((argument, at) => `arg=${at === 0 ? encodeWord(argument) : encode(argument)}`),
  )
  return `session.open ${start.sessionId} ${words.join(' ')}`
}

/** Returns text that is already percent-encoded. @throws StepError if it has characters that would break the line */
function encodedWord(text: string): string {
  if (!/^[\x21-\x7e]*$/.test(text)) throw new StepError('invalid_request', 'an argument is not percent-encoded')
  return text === '' ? encodeWord(text) : text
}

/** Checks a session id. @throws Error if it has characters that would break the command line */
export function checkId(sessionId: string): void {
  if (!idPattern.test(sessionId)) throw new Error('BUG: invalid session id')
}

const Opened = Type.Tuple([Count])
const Written = Type.Tuple([Count])
const Flag = Type.Union([Type.Literal(0), Type.Literal(1)])
/** Answer to `session.attach`: how the process ended, and the total length of each output stream. */
const End = Type.Union([
  Type.Tuple([Type.Literal('exited'), ExitCode, Count, Count]),
  Type.Tuple([Type.Literal('signaled'), Type.Integer({ minimum: 1, maximum: 64 }), Count, Count]),
])
/**
 * Answer to `session.list`: protocol version, maximum number of sessions, number of retained bytes of each output
 * stream.
 */
const Listed = Type.Tuple([Type.Literal(sessionProtocol), Count, Count])
const Id = Type.Union([Type.String({ pattern: idPattern.source }), Count])
const State = Type.Union([Type.Literal('running'), Type.Literal('exited'), Type.Literal('signaled')])
const Row = Type.Tuple([Id, State, Count, Flag, Flag, Count, Count, Count, Count, Count])

export interface SessionEnd {
  readonly reason: 'exited' | 'signaled'
  /** Exit code, or number of the signal that ended the process. */
  readonly code: number
  /** Total number of bytes that were written to each output stream. */
  readonly total: Offsets
}

export interface SessionRow {
  readonly sessionId: string
  readonly state: Static<typeof State>
  /** PID of a running process; exit code or signal number of one that has ended. */
  readonly number: number
  readonly tty: boolean
  /**
   * True if the guest keeps all output until a client has acknowledged it. Set at the start, and cleared once a client
   * detaches.
   */
  readonly held: boolean
  /** Position of the first byte that the guest still retains of each output stream. */
  readonly oldest: Offsets
  readonly total: Offsets
  /** Number of input bytes that the guest has received. */
  readonly inputBytes: number
}

/** Answer to `session.limits`: record version, largest window in bytes, maximum number of unanswered input bytes. */
const Limits = Type.Tuple([Type.Literal(1), Count, Count])

/** Limits that an init with support for records reports. */
export interface RecordLimits {
  readonly windowBytes: number
  readonly inputBytes: number
}

export function parseLimits(text: string): RecordLimits {
  const [, windowBytes, inputBytes] = parseWords(Limits, text)
  return { windowBytes, inputBytes }
}

export const parseOpened = (text: string): number => parseWords(Opened, text)[0]
export const parseWritten = (text: string): number => parseWords(Written, text)[0]
export const checkListed = (text: string): void => void parseWords(Listed, text)

export function parseEnd(text: string): SessionEnd {
  const [reason, code, stdout, stderr] = parseWords(End, text)
  const total = { stdout, stderr }
  return { reason, code, total }
}

export function parseRow(text: string): SessionRow {
  const [, state, number, tty, held, out, outEnd, err, errEnd, inputBytes] = parseWords(Row, text)
  if (out > outEnd || err > errEnd) throw new GuestFault('a session retains more output than it wrote')
  return {
    // The id is taken from the text, because `parseWords` would convert an id of digits to a number.
    sessionId: text.split(' ', 1)[0] ?? '',
    state,
    number,
    tty: tty === 1,
    held: held === 1,
    oldest: { stdout: out, stderr: err },
    total: { stdout: outEnd, stderr: errEnd },
    inputBytes,
  }
}

const partPattern = /^(\d{1,15}) ((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/

/** Parses one part of the output: `<offset> <base64>`. @throws GuestFault */
export function parsePart(text: string): { readonly offset: number; readonly data: Buffer } {
  const [, offset = '', encoded = ''] = text.length > maxPartChars + 16 ? [] : (partPattern.exec(text) ?? [])
  if (encoded === '') throw new GuestFault('a part of a session is invalid')
  return { offset: Number(offset), data: Buffer.from(encoded, 'base64') }
}
