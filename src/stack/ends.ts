/** Final statuses of deployments, and what each means for a deployment that is to serve. */
const ends: Readonly<Record<string, 'serves' | 'failed'>> = {
  running: 'serves',
  sleeping: 'serves',
  failed: 'failed',
  stopped: 'failed',
  cancelled: 'failed',
  superseded: 'failed',
  deleted: 'failed',
}

/** The goal of a deployment: to serve, to complete (a task), or either of them, as the restart policy allows. */
export type Goal = 'serve' | 'end' | 'either'

/**
 * Returns whether a deployment with this status has reached its goal or failed; undefined if its status can still
 * change.
 */
export function endOf(status: string, goal: Goal = 'serve'): 'serves' | 'failed' | undefined {
  if (goal !== 'serve' && status === 'stopped') return 'serves'
  return goal === 'end' && ends[status] === 'serves' ? undefined : ends[status]
}
