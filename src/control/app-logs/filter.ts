/** Converts the query of a request to a filter for log lines. */
import type { LogStream } from '../../contract/agent.ts'
import { days } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { invalidField, notFound } from '../http/errors.ts'
import { type Span, spanOf } from './range.ts'
import * as store from './store.ts'

export interface LogFilter extends Span {
  readonly appId: string
  readonly deploymentId: string | null
  readonly isReplica: (vmId: string) => boolean
  readonly streams: readonly LogStream[]
  /** Text that a log line must contain, in lower case; empty: lines are not filtered by text. */
  readonly text: string
  /** True if the query has no condition except the app or deployment whose log is searched. */
  readonly isPlain: boolean
}

export interface FilterQuery {
  readonly since?: string
  readonly until?: string
  readonly text?: string
  readonly replica?: string
  readonly deployment?: string
  readonly source?: 'app' | 'platform'
  readonly stream?: LogStream
}

const streamsOf = { app: ['stdout', 'stderr'], platform: ['system', 'build'] } as const

/** Checks the query of a log search. @throws ApiError 400, or 404 for an unknown deployment */
export async function filterOf(
  { db, config, clock }: Pick<Deps, 'db' | 'config' | 'clock'>,
  appId: string,
  query: FilterQuery,
): Promise<LogFilter> {
  const { text = '', replica, deployment, source, stream } = query
  const span = spanOf(query, days(config.logDays), clock.now())
  const found = deployment === undefined ? undefined : await store.deploymentOf(db, appId, deployment.toLowerCase())
  if (deployment !== undefined && !found) throw notFound()
  const all = source ? streamsOf[source] : [...streamsOf.app, ...streamsOf.platform]
  return {
    ...span,
    appId,
    deploymentId: found?.id ?? null,
    isReplica: replica === undefined ? () => true : await replicaOf(db, appId, replica),
    streams: all.filter(name => stream === undefined || name === stream),
    text: text.toLowerCase(),
    isPlain: [query.since, query.until, query.text, replica, source, stream].every(given => given === undefined),
  }
}

async function replicaOf(db: Deps['db'], appId: string, replica: string): Promise<(vmId: string) => boolean> {
  if (replica.length > 3) return vmId => vmId.endsWith(replica)
  const ids = await store.replicas(db, appId)
  const id = ids[Number(replica) - 1]
  if (id !== undefined) return vmId => vmId === id
  const advice =
    ids.length === 0
      ? 'No replica runs: give the id of a VM.'
      : `Give a number from 1 to ${ids.length}, or the id of a VM.`
  throw invalidField('replica', advice)
}
