/** Search in the log lines that a host retains, of VMs that run, of VMs that were removed, and of builds. */
import { type Static, Type } from 'typebox'
import { LogLine, LogStream } from './log.ts'

/** Orders the lines of several VMs: by time, then by the VM's id. */
export const LogKey = Type.Object({ atUs: Type.Integer(), vmId: Type.String({ maxLength: 64 }) })
export type LogKey = Static<typeof LogKey>

export const LogOrder = Type.Enum(['newest', 'oldest'])
export type LogOrder = Static<typeof LogOrder>

/** `logs.search`: the reply is a LogSearchAnswer. Ids of builds count as VMs. */
export const LogSearch = Type.Object({
  vmIds: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 5000 }),
  /** `newest` reads backwards in time. */
  order: LogOrder,
  /** Only lines later than this, and earlier than `beforeUs`. */
  afterUs: Type.Integer({ minimum: 0 }),
  beforeUs: Type.Integer({ minimum: 0 }),
  /** Only lines beyond this position, in the direction of `order`. */
  from: Type.Optional(LogKey),
  /** Text to search for, in lower case; a line that contains it in any case matches. Empty: every line. */
  text: Type.String({ maxLength: 200 }),
  streams: Type.Array(LogStream),
  limit: Type.Integer({ minimum: 1, maximum: 1000 }),
})
export type LogSearch = Static<typeof LogSearch>

export const FoundLine = Type.Object({ vmId: Type.String(), ...LogLine.properties })
export type FoundLine = Static<typeof FoundLine>

export const LogSearchAnswer = Type.Object({
  /** In the requested order. */
  lines: Type.Array(FoundLine),
  /** All lines up to this position were searched; the next search continues from here. Null: the end of the range. */
  reached: Type.Union([LogKey, Type.Null()]),
})
export type LogSearchAnswer = Static<typeof LogSearchAnswer>

/** `logs.forget`: the host deletes the logs of these apps' removed VMs. The reply is `{}`. */
export const LogForget = Type.Object({ appIds: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 1000 }) })
export type LogForget = Static<typeof LogForget>

/** Compares positions in a direction: negative if `a` comes first. */
export function compareKeys(order: LogOrder, a: LogKey, b: LogKey): number {
  const ascending = a.atUs - b.atUs || (a.vmId < b.vmId ? -1 : a.vmId > b.vmId ? 1 : 0)
  return order === 'oldest' ? ascending : -ascending
}
