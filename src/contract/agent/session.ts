/**
 * Sessions: processes in a VM with input, output and signals. All positions are byte offsets, so requests are
 * repeatable.
 */
import { type Static, Type } from 'typebox'

const Bytes = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const SessionId = Type.String({ pattern: '^[A-Za-z0-9-]{1,39}$' })
export const TerminalSize = Type.Object({
  rows: Type.Integer({ minimum: 0, maximum: 65_535 }),
  columns: Type.Integer({ minimum: 0, maximum: 65_535 }),
})
const SessionOffsets = Type.Object({ stdout: Bytes, stderr: Bytes })

/** Longest wait of a `read`, in ms. */
export const maxReadWaitMs = 25_000
/** Maximum input of one request, in bytes. */
export const maxInputBytes = 1 << 19
/** Maximum input of one request in base64, the format for older agents. */
export const maxTextInputBytes = 1 << 18
const maxInputChars = Math.ceil(maxTextInputBytes / 3) * 4
/**
 * Bytes of output that a guest sends before it waits for an acknowledgment, if its agent does not report the number.
 */
export const textWindowBytes = 1 << 18

const of = <A extends string>(action: A) => ({ action: Type.Literal(action), sessionId: SessionId })

/** Absolute path of a Unix socket; `sun_path` of unix(7) has 108 bytes with the NUL at the end. */
export const SocketPath = Type.String({ pattern: '^/[^\\u0000]*$', maxLength: 107 })

export const SessionRequest = Type.Union([
  Type.Object({
    ...of('open'),
    /** Exactly one of `command`, `port` and `socket`. */
    command: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: 256 })),
    /** A TCP port of the guest to connect to instead of running a program. */
    port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535 })),
    /** Path of a Unix socket in the guest to connect to (unix(7)). An older init program refuses it. */
    socket: Type.Optional(SocketPath),
    /** `command` is a file tool of the init (guest/files.c) with its arguments. */
    fileTool: Type.Optional(Type.Boolean()),
    /** The arguments after the first are percent-encoded bytes, for paths that are not UTF-8. */
    encodedArguments: Type.Optional(Type.Boolean()),
    /** Added to the environment of the VM's program. */
    env: Type.Optional(Type.Record(Type.String(), Type.String())),
    cwd: Type.Optional(Type.String()),
    /** Name or number. Default: the image's user. */
    user: Type.Optional(Type.String()),
    /** Runs the program in a terminal. */
    tty: Type.Optional(TerminalSize),
    /** Opens a pipe as standard input. */
    input: Type.Optional(Type.Boolean()),
  }),
  /**
   * Returns the output after `from`, or waits for it. A read acknowledges all output before `acked`, whose default is
   * `from`: the guest drops it. A new `readerId` replaces the previous reader.
   */
  Type.Object({
    ...of('read'),
    readerId: Type.String({ minLength: 1, maxLength: 64 }),
    from: SessionOffsets,
    acked: Type.Optional(SessionOffsets),
    /** Return the data as bytes (session-bytes.ts). Older agents ignore this and return base64. */
    bytes: Type.Optional(Type.Literal(true)),
    waitMs: Type.Integer({ minimum: 0, maximum: maxReadWaitMs }),
  }),
  /** Writes base64 data at this offset of the input. */
  Type.Object({ ...of('input'), offset: Bytes, data: Type.String({ maxLength: maxInputChars }) }),
  Type.Object(of('close_input')),
  Type.Object({ ...of('resize'), size: TerminalSize }),
  Type.Object({ ...of('signal'), number: Type.Integer({ minimum: 1, maximum: 64 }) }),
  Type.Object(of('remove')),
  Type.Object({ action: Type.Literal('list') }),
])
export type SessionRequest = Static<typeof SessionRequest>

/** Head of an `input` request with binary data (session-bytes.ts). */
export const SessionInputAt = Type.Object({ vmId: Type.String(), sessionId: SessionId, offset: Bytes })

/** The agent accepts `input` with binary data. Absent: an older agent, which does not. */
const takesBytes = Type.Optional(Type.Literal(true))
/** The agent accepts an `input` with binary data while earlier ones of the same session await their replies. */
const takesInputAhead = Type.Optional(Type.Literal(true))

/** `vm.session`: the reply is a `SessionAnswer` of the same action. */
export const VmSession = Type.Object({ vmId: Type.String(), request: SessionRequest })
export type VmSession = Static<typeof VmSession>

const SessionEnd = Type.Object({
  reason: Type.Enum(['exited', 'signaled']),
  /** Exit code, or number of the signal. */
  code: Type.Integer({ minimum: 0, maximum: 255 }),
  /** Total length of each output. */
  total: SessionOffsets,
})

const SessionRow = Type.Object({
  sessionId: SessionId,
  state: Type.Enum(['running', 'exited', 'signaled']),
  /** PID, exit code or number of the signal. */
  number: Type.Integer(),
  tty: Type.Boolean(),
  /** The guest retains output until a client has acknowledged it. */
  held: Type.Boolean(),
  /** First retained byte of each output. */
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
        /** Bytes before `offset` that the guest no longer retains. */
        lostBytes: Bytes,
        data: Type.String(),
      }),
    ),
    /** Set when the session has ended and `parts` has the rest of its output. */
    end: Type.Union([SessionEnd, Type.Null()]),
  }),
  Type.Object({ action: Type.Literal('input'), receivedBytes: Bytes }),
  Type.Object({ action: Type.Enum(['close_input', 'resize', 'signal', 'remove']) }),
  Type.Object({ action: Type.Literal('list'), sessions: Type.Array(SessionRow), takesBytes, takesInputAhead }),
])
export type SessionAnswer = Static<typeof SessionAnswer>
