/** Reads the history of a branch on its page server. The history serves as the branch's backup. */
import type { DatabaseDeps } from './deps.ts'
import { pageserver, type Timeline } from './pageserver.ts'
import { pageserverOf } from './storage-nodes.ts'
import type { Branch } from './store.ts'

export interface History {
  /**
   * `none`: the branch has no history yet, because nothing was written. `lost`: the page server does not respond, or
   * does not have the branch.
   */
  readonly state: 'none' | 'kept' | 'lost'
  readonly sizeBytes: number
  readonly checkedAt: Date
  readonly error: string | null
}

const lookMs = 3_000

/**
 * Requests the branch's history from the page server. Returns undefined for a database that stores its data on volumes.
 */
export async function historyOf(
  deps: Pick<DatabaseDeps, 'config' | 'log'>,
  b: Branch,
  checkedAt: Date,
  signal: AbortSignal,
): Promise<History | undefined> {
  const { backend, storageNode, tenantId } = b.database
  if (backend !== 'neon') return undefined
  if (b.appId === null) return { state: 'none', sizeBytes: 0, checkedAt, error: null }
  try {
    const server = pageserver(pageserverOf(deps.config.databases, storageNode))
    const timeline = await server.timeline(
      tenantId,
      b.timelineId,
      AbortSignal.any([signal, AbortSignal.timeout(lookMs)]),
    )
    return judge(timeline, checkedAt)
  } catch (err) {
    deps.log.warn({ err, branchId: b.id }, 'a page server did not return the history of a branch')
    return { state: 'lost', sizeBytes: 0, checkedAt, error: 'The page server does not answer.' }
  }
}

function judge(timeline: Timeline | undefined, checkedAt: Date): History {
  if (!timeline) return { state: 'lost', sizeBytes: 0, checkedAt, error: 'The page server does not have the branch.' }
  const sizeBytes = timeline.current_logical_size ?? 0
  if (timeline.state !== undefined && timeline.state !== 'Active')
    return { state: 'lost', sizeBytes, checkedAt, error: 'The page server does not serve the branch now.' }
  return { state: 'kept', sizeBytes, checkedAt, error: null }
}
