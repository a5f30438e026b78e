/** Messages with log lines of VMs and builds. */
import { type Static, Type } from 'typebox'

export const LogStream = Type.Enum(['stdout', 'stderr', 'system', 'build'])
export type LogStream = Static<typeof LogStream>

export const LogLine = Type.Object({
  /**
   * Time of the line in microseconds since the epoch. Strictly increasing for one VM, so it also serves as the line's
   * id.
   */
  atUs: Type.Integer(),
  stream: LogStream,
  line: Type.String(),
})
export type LogLine = Static<typeof LogLine>

/** Consecutive log lines of one VM, at most 256, published on `subjects.log(...)`. */
export const LogBatch = Type.Object({
  vmId: Type.String(),
  deploymentId: Type.String(),
  /** Number of lines dropped since the previous batch, because the guest wrote faster than the limit. */
  dropped: Type.Integer(),
  lines: Type.Array(LogLine),
})
export type LogBatch = Static<typeof LogBatch>

/**
 * Request of `vm.logs` for the newest `tail` retained lines of one VM after `afterUs`. The reply is `{ lines: LogLine[]
 * }`, oldest first, with `more` if the lines exceed one bus message: the next request continues after the last line.
 * With `events`, an agent that supports it replies with the bytes of log-page.ts instead.
 */
export const VmLogsRequest = Type.Object({
  vmId: Type.String(),
  tail: Type.Integer({ minimum: 0, maximum: 100_000 }),
  afterUs: Type.Integer({ minimum: 0 }),
  /** If present, the lines are returned encoded as server-sent events, which contain this deployment id. */
  events: Type.Optional(Type.Object({ deploymentId: Type.String() })),
})
export type VmLogsRequest = Static<typeof VmLogsRequest>

export const VmLogsAnswer = Type.Object({ lines: Type.Array(LogLine), more: Type.Optional(Type.Literal(true)) })
export type VmLogsAnswer = Static<typeof VmLogsAnswer>
