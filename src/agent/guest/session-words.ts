/** Builds session commands and parses the answers; both are lines of words. guest/session.c is the other side. */
import { type Static, Type } from 'typebox'
import { StepError } from '../base/step-error.ts'
import { Count, ExitCode, parseWords } from './answers.ts'
import { GuestFault } from './fault.ts'
import { encodeWord } from '../../lib/words.ts'

/** Version that the guest reports in its answer to `session.list`. */
export const sessionProtocol = 1
/** Output that the guest retains for each stream (BACKLOG_MAX in guest/mote.h), and the largest window without records. */
export const maxBacklogBytes = 1 << 18
/** Maximum input of one request without records. */
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
  /** Chosen by the host: at most 39 letters, digits and hyphens. */
  readonly sessionId: string
  /** Program and arguments. Exactly one of `command`, `port` and `socket` must be set. */
  readonly command?: readonly string[]
  /** A TCP port of the guest to connect to instead of running a program. */
  readonly port?: number
  /** Path of a socket of the guest (unix(7)) to connect to. */
  readonly socket?: string
  /** `command` is a file tool of the init (guest/files.c) with its arguments. */
  readonly fileTool?: boolean
  /** The arguments after the first are percent-encoded bytes, for paths that are not UTF-8. */
  readonly encodedArguments?: boolean
  /** Added to the environment of the image's program, or replaces its variables. */
  readonly env?: Readonly<Record<string, string>>
  /** Default: the image's working directory. */
  readonly cwd?: string
  /** Name or number of a user. Default: the image's user. */
  readonly user?: string
  /** Runs the program in a terminal, whose output is all `stdout`. */
  readonly tty?: TerminalSize
  /** Opens a pipe for the standard input, which is /dev/null otherwise. A terminal always has input. */
  readonly input?: boolean
}

/** Byte positions in the two outputs of a session. */
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

/** @throws Error if the id has characters that would break the command line */
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
/** Answer to `session.list`: protocol version, maximum number of sessions, bytes that are retained of each stream. */
const Listed = Type.Tuple([Type.Literal(sessionProtocol), Count, Count])
const Id = Type.Union([Type.String({ pattern: idPattern.source }), Count])
const State = Type.Union([Type.Literal('running'), Type.Literal('exited'), Type.Literal('signaled')])
const Row = Type.Tuple([Id, State, Count, Flag, Flag, Count, Count, Count, Count, Count])

export interface SessionEnd {
  readonly reason: 'exited' | 'signaled'
  /** Exit code, or number of the signal. */
  readonly code: number
  /** Total length of each output stream. */
  readonly total: Offsets
}

export interface SessionRow {
  readonly sessionId: string
  readonly state: Static<typeof State>
  /** Depending on the state: PID, exit code or signal number. */
  readonly number: number
  readonly tty: boolean
  /** True if no output is dropped before a client has acknowledged it. Initially true; false once a client detached. */
  readonly held: boolean
  /** First retained byte of each output. */
  readonly oldest: Offsets
  readonly total: Offsets
  /** Bytes of input that the guest has received. */
  readonly inputBytes: number
}

/** Answer to `session.limits`: record version, largest window, maximum number of unanswered input bytes. */
const Limits = Type.Tuple([Type.Literal(1), Count, Count])

/** Limits of an init that supports records. */
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
    // Taken from the text, because `parseWords` converts an id of digits to a number.
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

/** Parses `<offset> <base64>`. @throws GuestFault */
export function parsePart(text: string): { readonly offset: number; readonly data: Buffer } {
  const [, offset = '', encoded = ''] = text.length > maxPartChars + 16 ? [] : (partPattern.exec(text) ?? [])
  if (encoded === '') throw new GuestFault('a part of a session is invalid')
  return { offset: Number(offset), data: Buffer.from(encoded, 'base64') }
}
