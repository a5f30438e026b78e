/**
 * Messages about sessions: processes in a VM with input, output and signals. All positions are byte offsets, so that
 * every request can be repeated.
 */
import { type Static, Type } from 'typebox'

const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const SessionId = Type.String({ pattern: '^[A-Za-z0-9-]{1,39}$' })
export const TerminalSize = Type.Object({
  rows: Type.Integer({ minimum: 0, maximum: 65_535 }),
  columns: Type.Integer({ minimum: 0, maximum: 65_535 }),
})
const SessionOffsets = Type.Object({ stdout: Bytes, stderr: Bytes })

/** Maximum time for which a `read` may wait for output, in ms. */
export const maxReadWaitMs = 25_000
/** Maximum input of one `input` request, in bytes. */
export const maxInputBytes = 1 << 19
/** Maximum input of one `input` request in base64, the format for older agents, in bytes before encoding. */
export const maxTextInputBytes = 1 << 18
const maxInputChars = Math.ceil(maxTextInputBytes / 3) * 4
/**
 * Bytes of output that a guest sends before it waits for an acknowledgment, if its agent does not report the number.
 */
export const textWindowBytes = 1 << 18

const of = <A extends string>(action: A) => ({ action: Type.Literal(action), sessionId: SessionId })

/** Absolute path of a Unix socket; at most 107 bytes, because `sun_path` of unix(7) has 108 with the NUL at the end. */
export const SocketPath = Type.String({ pattern: '^/[^\\u0000]*$', maxLength: 107 })

export const SessionRequest = Type.Union([
  Type.Object({
    ...of('open'),
    /** The program of the session. Exactly one of `command`, `port` and `socket` must be set. */
    command: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 256 })),
    /** TCP port of the guest to which the session connects, instead of running a program. */
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535 })),
    /** Path of a Unix socket in the guest (unix(7)) to which the session connects. Older init programs refuse it. */
    socket: Type.Optional(SocketPath),
    /** Whether `command` names a file tool of the guest's init (guest/files.c), with its arguments. */
    fileTool: Type.Optional(Type.Boolean()),
    /** Whether the arguments after the first one are percent-encoded bytes, for paths that are not UTF-8. */
    encodedArguments: Type.Optional(Type.Boolean()),
    /** Variables in addition to the environment of the VM's program. */
    env: Type.Optional(Type.Record(Type.String(), Type.String())),
    cwd: Type.Optional(Type.String()),
    /** Name or number of the user that runs the program; default: the image's user. */
    user: Type.Optional(Type.String()),
    /** Size of the terminal in which the program runs; absent: it runs without a terminal. */
    tty: Type.Optional(TerminalSize),
    /** Whether the program gets a pipe as standard input. */
    input: Type.Optional(Type.Boolean()),
  }),
  /**
   * Request that returns the output after `from`, or waits for it. It acknowledges all output before `acked` (default:
   * `from`), which the guest then drops. A new `readerId` replaces the previous reader.
   */
  Type.Object({
    ...of('read'),
    readerId: Type.String({ minLength: 1, maxLength: 64 }),
    from: SessionOffsets,
    acked: Type.Optional(SessionOffsets),
    /** Whether to return the data as bytes (session-bytes.ts). Older agents ignore this field and return base64. */
    bytes: Type.Optional(Type.Literal(true)),
    waitMs: Type.Integer({ minimum: 0, maximum: maxReadWaitMs }),
  }),
  /** Request that writes base64 data at an offset of the program's input. */
  Type.Object({ ...of('input'), offset: Bytes, data: Type.String({ maxLength: maxInputChars }) }),
  Type.Object(of('close_input')),
  Type.Object({ ...of('resize'), size: TerminalSize }),
  Type.Object({ ...of('signal'), number: Type.Integer({ minimum: 1, maximum: 64 }) }),
  Type.Object(of('remove')),
  Type.Object({ action: Type.Literal('list') }),
])
export type SessionRequest = Static<typeof SessionRequest>

/** Head of a binary `input` request (session-bytes.ts); the data follows it. */
export const SessionInputAt = Type.Object({ vmId: Type.String(), sessionId: SessionId, offset: Bytes })

/** Whether the agent accepts `input` requests with binary data; absent: an older agent, which does not. */
const takesBytes = Type.Optional(Type.Literal(true))
/** Whether the agent accepts a binary `input` request while earlier ones of the same session await their replies. */
const takesInputAhead = Type.Optional(Type.Literal(true))

/** Request of `vm.session`. The reply is a `SessionAnswer` with the same action. */
export const VmSession = Type.Object({ vmId: Type.String(), request: SessionRequest })
export type VmSession = Static<typeof VmSession>

const SessionEnd = Type.Object({
  reason: Type.Enum(['exited', 'signaled']),
  /** Exit code of the program, or number of the signal that ended it. */
  code: Type.Integer({ minimum: 0, maximum: 255 }),
  /** Total length of each output stream, in bytes. */
  total: SessionOffsets,
})

const SessionRow = Type.Object({
  sessionId: SessionId,
  state: Type.Enum(['running', 'exited', 'signaled']),
  /** Depending on `state`: the PID, the exit code, or the number of the signal. */
  number: Type.Integer(),
  tty: Type.Boolean(),
  /** Whether the guest retains output until a client has acknowledged it. */
  held: Type.Boolean(),
  /** Position of the first retained byte in each output stream. */
  oldest: SessionOffsets,
  total: SessionOffsets,
  inputBytes: Bytes,
})

export const SessionAnswer = Type.Union([
  Type.Object({ action: Type.Literal('open'), pid: Type.Integer(), takesBytes, takesInputAhead }),
  Type.Object({
    action: Type.Literal('read'),
    parts: Type.Array(
      Type.Object({
        stream: Type.Enum(['stdout', 'stderr']),
        offset: Bytes,
        /** Number of bytes before `offset` that the guest no longer retains, so they are lost. */
        lostBytes: Bytes,
        data: Type.String(),
      }),
    ),
    /** How the program ended; null until the session has ended and `parts` contains the rest of its output. */
    end: Type.Union([SessionEnd, Type.Null()]),
  }),
  Type.Object({ action: Type.Literal('input'), receivedBytes: Bytes }),
  Type.Object({ action: Type.Enum(['close_input', 'resize', 'signal', 'remove']) }),
  Type.Object({ action: Type.Literal('list'), sessions: Type.Array(SessionRow), takesBytes, takesInputAhead }),
])
export type SessionAnswer = Static<typeof SessionAnswer>
