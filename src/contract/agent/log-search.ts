/** Messages for searching in the log lines that a host retains: of running VMs, removed VMs and builds. */
import { type Static, Type } from 'typebox'
import { LogLine, LogStream } from './log.ts'

/** Position in the lines of several VMs, which are ordered by time, then by VM id. */
export const LogKey = Type.Object({ atUs: Type.Integer(), vmId: Type.String({ maxLength: 64 }) })
export type LogKey = Static<typeof LogKey>

export const LogOrder = Type.Enum(['newest', 'oldest'])
export type LogOrder = Static<typeof LogOrder>

/** Request of `logs.search`, whose reply is a LogSearchAnswer. Ids of builds count as ids of VMs. */
export const LogSearch = Type.Object({
  vmIds: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 5000 }),
  /** Order of the search; `newest` searches backwards in time. */
  order: LogOrder,
  /** Only lines after `afterUs` and before `beforeUs` are searched. */
  afterUs: Type.Integer({ minimum: 0 }),
  beforeUs: Type.Integer({ minimum: 0 }),
  /** Only lines after this position are searched, in the direction of `order`. */
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
  /** The lines that were found, in the requested order. */
  lines: Type.Array(FoundLine),
  /**
   * The search has covered all lines up to this position, from which the next search continues. Null: the search has
   * reached the end of the time range.
   */
  reached: Type.Union([LogKey, Type.Null()]),
})
export type LogSearchAnswer = Static<typeof LogSearchAnswer>

/** Request of `logs.forget`: the host deletes the logs of the removed VMs of these apps. The reply is `{}`. */
export const LogForget = Type.Object({ appIds: Type.Array(Type.String({ maxLength: 64 }), { maxItems: 1000 }) })
export type LogForget = Static<typeof LogForget>

/** Compares two positions in the direction of `order`: negative if `a` comes first. */
export function compareKeys(order: LogOrder, a: LogKey, b: LogKey): number {
  const ascending = a.atUs - b.atUs || (a.vmId < b.vmId ? -1 : a.vmId > b.vmId ? 1 : 0)
  return order === 'oldest' ? ascending : -ascending
}
