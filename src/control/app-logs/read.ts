/**
 * Reads log lines of an app: finds the VMs and builds that have some, queries their hosts, and continues until there
 * are enough lines.
 */
import type { FoundLine, LogKey, LogOrder } from '../../contract/agent.ts'
import { seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import type { LogFilter } from './filter.ts'
import { type Query, searchHosts } from './hosts.ts'
import { sourcesIn } from './store.ts'

export interface Reading {
  readonly order: LogOrder
  readonly limit: number
  readonly from?: LogKey | undefined
}

export interface AppLine extends FoundLine {
  readonly deploymentId: string
}

export interface AppLines {
  /** Log lines in the requested order. */
  readonly lines: readonly AppLine[]
  /** Position from which the next page continues; null if the whole time span was searched. */
  readonly reached: LogKey | null
  readonly unavailable: ReadonlySet<string>
}

export type ReadDeps = Pick<Deps, 'db' | 'bus' | 'log'>

/** Time after which a log search stops and returns the lines that it has found so far. */
const mostMs = seconds(4)
const mostBytes = 16 * 2 ** 20
/** Maximum number of lines that one request to a host returns. */
const mostAtOnce = 1000

export async function readLines(
  deps: ReadDeps,
  filter: LogFilter,
  { order, limit, from }: Reading,
  signal: AbortSignal,
): Promise<AppLines> {
  const end = performance.now() + mostMs
  const lines: AppLine[] = []
  const unavailable = new Set<string>()
  let bytes = 0
  for (let at = from; ; ) {
    const span = narrowed(filter, order, at)
    const { sources, edgeUs } = await sourcesIn(deps.db, filter, { ...span, order })
    const wanted = sources.filter(({ vmId }) => filter.isReplica(vmId))
    const query: Query = {
      order,
      ...upTo(order, span, edgeUs),
      ...(at ? { from: at } : {}),
      text: filter.text,
      streams: [...filter.streams],
      limit: Math.min(mostAtOnce, limit - lines.length),
    }
    const found = await searchHosts(deps, wanted, query, signal)
    const deploymentOf = new Map(wanted.map(({ vmId, deploymentId }) => [vmId, deploymentId]))
    for (const line of found.lines) {
      lines.push({ ...line, deploymentId: deploymentOf.get(line.vmId) ?? '' })
      bytes += line.line.length + 200
    }
    for (const vmId of found.unavailable) unavailable.add(vmId)
    const edge = edgeUs === undefined ? undefined : edgeKey(order, edgeUs)
    // If more VMs have ended at the same time than one query returns, the position does not advance. Then the search
    // ends.
    const isStuck = edge && at && (order === 'newest' ? edge.atUs >= at.atUs : edge.atUs <= at.atUs)
    const reached = found.reached ?? (isStuck ? null : (edge ?? null))
    const isEnough = lines.length >= limit || bytes > mostBytes || performance.now() > end
    if (reached === null || isEnough) return { lines, reached, unavailable }
    at = reached
  }
}

type Span = Pick<LogFilter, 'afterUs' | 'beforeUs'>

function narrowed({ afterUs, beforeUs }: Span, order: LogOrder, at: LogKey | undefined): Span {
  if (!at) return { afterUs, beforeUs }
  return order === 'newest'
    ? { afterUs, beforeUs: Math.min(beforeUs, at.atUs + 1) }
    : { afterUs: Math.max(afterUs, at.atUs - 1), beforeUs }
}

function upTo(order: LogOrder, { afterUs, beforeUs }: Span, edgeUs: number | undefined): Span {
  if (edgeUs === undefined) return { afterUs, beforeUs }
  return order === 'newest'
    ? { afterUs: Math.max(afterUs, edgeUs), beforeUs }
    : { afterUs, beforeUs: Math.min(beforeUs, edgeUs) }
}

/**
 * Position from which the next page continues when only a part of the time span was searched, up to `edgeUs`. Lines at
 * exactly `edgeUs` were not searched.
 */
const edgeKey = (order: LogOrder, edgeUs: number): LogKey =>
  order === 'newest' ? { atUs: edgeUs + 1, vmId: '' } : { atUs: edgeUs - 1, vmId: 'z' }
