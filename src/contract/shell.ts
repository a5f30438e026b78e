/** Messages between a gateway's bastion and control, for sessions that OpenSSH clients open in a VM. */
import { type Static, Type } from 'typebox'
import { maxInputBytes, SessionAnswer, SessionRequest, SocketPath, TerminalSize } from './agent/session.ts'
import { checkHead, decodeWithHead, encodeWithHead } from './agent/session-bytes.ts'

/**
 * Request that opens a session in a VM of an app. `grant`: from the `TunnelLoginAnswer`. Permissions are checked again.
 */
export const ShellOpen = Type.Object({
  grant: Type.String({ maxLength: 2048 }),
  what: Type.Union([
    /** The program is a login shell. */
    Type.Object({ kind: Type.Literal('shell') }),
    /** The program is a command that a shell runs, as SSH passes it (RFC 4254, 6.5). */
    Type.Object({ kind: Type.Literal('command'), command: Type.String({ minLength: 1, maxLength: 65_536 }) }),
    Type.Object({ kind: Type.Literal('sftp') }),
    /** Connects to a TCP port of the VM instead of running a program. */
    Type.Object({ kind: Type.Literal('port'), port: Type.Integer({ minimum: 1, maximum: 65_535 }) }),
    /** Connects to a Unix socket of the VM (unix(7)) instead of running a program. */
    Type.Object({ kind: Type.Literal('socket'), path: SocketPath }),
  ]),
  tty: Type.Optional(TerminalSize),
  env: Type.Optional(Type.Record(Type.String(), Type.String({ maxLength: 4096 }), { maxProperties: 64 })),
})
export type ShellOpen = Static<typeof ShellOpen>

/**
 * Reply to `ShellOpen`: a `ticket`, which every request about the session must contain, or the `reason` for the user
 * why no session was opened. `takesBytes`: control accepts a ShellInput and returns bytes for a `read` that requests
 * them (agent/session-bytes.ts); absent in earlier releases.
 */
export const ShellOpenAnswer = Type.Union([
  Type.Object({ ticket: Type.String(), sessionId: Type.String(), takesBytes: Type.Optional(Type.Literal(true)) }),
  Type.Object({ reason: Type.String() }),
])
export type ShellOpenAnswer = Static<typeof ShellOpenAnswer>

export const ShellAsk = Type.Object({ ticket: Type.String({ maxLength: 2048 }), request: SessionRequest })
export type ShellAsk = Static<typeof ShellAsk>

const ShellInputAt = Type.Object({
  ticket: Type.String({ maxLength: 2048 }),
  sessionId: Type.String({ maxLength: 64 }),
  offset: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
})

/** A request with input for a session, as bytes. It replaces a ShellAsk with the action `input` and base64 data. */
export interface ShellInput extends Static<typeof ShellInputAt> {
  readonly data: Uint8Array
}

export const encodeShellInput = ({ data, ...at }: ShellInput): Uint8Array => encodeWithHead(at, [data])

/** Decodes input for a session. @throws Error for a message that is not valid */
export function decodeShellInput(message: Uint8Array): ShellInput {
  const { head, data } = decodeWithHead(message)
  checkHead(ShellInputAt, head)
  if (data.length > maxInputBytes) throw new Error('the request has too much data')
  const { ticket, sessionId, offset } = head
  return { ticket, sessionId, offset, data }
}

/**
 * Reply to `ShellAsk`. `answer`: the reply of the VM's host. `retry`: the VM or its host does not respond, and the same
 * request may succeed later. `reason`: the session has ended, or the permission was revoked.
 */
export const ShellAskAnswer = Type.Union([
  Type.Object({ answer: SessionAnswer }),
  Type.Object({ retry: Type.Literal(true) }),
  Type.Object({ reason: Type.String() }),
])
export type ShellAskAnswer = Static<typeof ShellAskAnswer>

export const shellSubjects = {
  /** Subject of a ShellOpen; control replies with a ShellOpenAnswer. */
  open: 'control.in.shell.open',
  /**
   * Subject of a ShellAsk or, as bytes, a ShellInput. Control replies with a ShellAskAnswer, or with bytes to a `read`
   * that requests them.
   */
  ask: 'control.in.shell.ask',
} as const
