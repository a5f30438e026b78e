/** Searches the logs of many VMs on their hosts concurrently, and merges the results. */
import { BusError } from '../../bus/bus.ts'
import { compareKeys, type FoundLine, type LogKey, type LogSearch, type LogSearchAnswer } from '../../contract/agent.ts'
import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import type { LogSource } from './store.ts'

export type Query = Omit<LogSearch, 'vmIds'>

export interface Found extends LogSearchAnswer {
  /** VMs whose host did not respond. */
  readonly unavailable: readonly string[]
}

type Asker = Pick<Deps, 'bus' | 'log'>

export async function searchHosts(
  deps: Asker,
  sources: readonly LogSource[],
  query: Query,
  signal: AbortSignal,
): Promise<Found> {
  const answers = await Promise.all(
    [...Map.groupBy(sources, ({ hostId }) => hostId)].map(async ([hostId, onHost]) => {
      const vmIds = onHost.map(({ vmId }) => vmId)
      try {
        return { vmIds, found: checked(vmIds, query, await searchHost(deps, hostId, { ...query, vmIds }, signal)) }
      } catch (err) {
        signal.throwIfAborted()
        deps.log.warn({ err, hostId }, 'a host did not search its logs')
        return { vmIds, found: undefined }
      }
    }),
  )
  const found = answers.flatMap(answer => answer.found ?? [])
  return {
    ...merge(query, found),
    unavailable: answers.flatMap(answer => (answer.found ? [] : answer.vmIds)),
  }
}

/**
 * Merges the results of several hosts, up to the last position that all of these hosts have searched. The next request
 * reads the lines after that position again.
 */
function merge({ order, limit }: Query, answers: readonly LogSearchAnswer[]): LogSearchAnswer {
  const ends = answers.flatMap(({ reached }) => reached ?? [])
  const nearest = ends.toSorted((a, b) => compareKeys(order, a, b))[0]
  const lines = answers
    .flatMap(answer => answer.lines)
    .filter(line => !nearest || compareKeys(order, line, nearest) <= 0)
    .sort((a, b) => compareKeys(order, a, b))
  if (lines.length <= limit) return { lines, reached: nearest ?? null }
  const part = lines.slice(0, limit)
  return { lines: part, reached: part.at(-1) ?? null }
}

/**
 * Drops lines of VMs that the host was not queried about. Ends the search on a host that reports the same position
 * again, because such a host would be queried forever.
 */
function checked(
  vmIds: readonly string[],
  { order, from }: Query,
  { lines, reached }: LogSearchAnswer,
): LogSearchAnswer {
  const known = new Set(vmIds)
  const advances = reached !== null && (!from || compareKeys(order, reached, from) > 0)
  return { lines: lines.filter(({ vmId }) => known.has(vmId)), reached: advances ? reached : null }
}

async function searchHost(
  { bus }: Asker,
  hostId: string,
  search: LogSearch,
  signal: AbortSignal,
): Promise<LogSearchAnswer> {
  const client = agentClient(bus, hostId)
  try {
    return await client.searchLogs(search, signal)
  } catch (error) {
    if (!(error instanceof BusError) || error.code !== 'no_responder') throw error
    return searchOlderAgent(client, search, signal)
  }
}

/**
 * Searches the logs on agents of the previous release, which have no search operation: reads the newest lines of each
 * VM and filters them in the control plane.
 */
async function searchOlderAgent(
  client: ReturnType<typeof agentClient>,
  { vmIds, order, afterUs, beforeUs, from, text, streams, limit }: LogSearch,
  signal: AbortSignal,
): Promise<LogSearchAnswer> {
  const lines: FoundLine[] = []
  for (const vmId of vmIds) {
    const answer = await client.logs({ vmId, tail: 1000, afterUs }, signal)
    for (const line of answer.lines) {
      const key: LogKey = { vmId, atUs: line.atUs }
      const isWanted =
        line.atUs < beforeUs &&
        streams.includes(line.stream) &&
        line.line.toLowerCase().includes(text) &&
        (!from || compareKeys(order, key, from) > 0)
      if (isWanted) lines.push({ vmId, ...line })
    }
  }
  return merge({ order, afterUs, beforeUs, text, streams, limit }, [
    { lines: lines.sort((a, b) => compareKeys(order, a, b)), reached: null },
  ])
}
