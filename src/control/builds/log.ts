/** Build logs. While the build runs they are read from its host, afterwards from the database. */
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'

export interface BuildLine {
  /** Time of the log line in microseconds since 1970. */
  readonly atUs: number
  readonly line: string
}

/**
 * Maximum number of lines of a build's log that are stored in the database: readers rarely need more, and the host
 * retains the whole log for a week.
 */
export const keptLines = 5000

const Stored = Type.Array(Type.Tuple([Type.Number(), Type.String()]))

const insertLog = statement(
  'builds.keepLog',
  `INSERT INTO build_log (build_id, lines) SELECT id, $2::jsonb FROM build WHERE id = $1 ON CONFLICT DO NOTHING`,
)
const logOfBuild = statement<{ lines: unknown }>('builds.log', `SELECT lines FROM build_log WHERE build_id = $1`)
const forgetLogs = statement('builds.forgetLogs', `DELETE FROM build_log WHERE kept_at < $1`)

/**
 * Reads the newest lines of a build's log from its host. @returns lines, oldest first @throws BusError when the host
 * does not respond
 */
export async function hostLines(
  { bus }: Pick<Deps, 'bus'>,
  { id, hostId }: { readonly id: string; readonly hostId: string },
  tail: number,
  signal?: AbortSignal,
): Promise<BuildLine[]> {
  const { lines } = await agentClient(bus, hostId).logs({ vmId: id, tail, afterUs: 0 }, signal)
  return lines.map(({ atUs, line }) => ({ atUs, line }))
}

/** Stores the last lines of a build's log, in the transaction that ends the build. */
export const keepLines = (tx: Tx, buildId: string, lines: readonly BuildLine[]) =>
  tx.run(insertLog, [buildId, JSON.stringify(lines.map(({ atUs, line }) => [atUs, storable(line)]))])

/** Replaces NUL and unpaired surrogates: programs print both, but PostgreSQL's jsonb accepts neither. */
const storable = (line: string) => line.replaceAll('\0', '\ufffd').toWellFormed()

/** Returns the stored lines of a build's log; undefined when no log was stored. */
export async function keptLog(sql: Sql, buildId: string): Promise<BuildLine[] | undefined> {
  const row = await sql.maybe(logOfBuild, [buildId])
  if (!row) return undefined
  const stored = Value.Parse(Stored, row.lines)
  return stored.map(([atUs, line]) => ({ atUs, line }))
}

export const forgetLogsBefore = (sql: Sql, before: Date) => sql.run(forgetLogs, [before])
