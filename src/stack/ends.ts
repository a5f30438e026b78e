/** Final statuses: the deployment does not leave them by itself. */
const ends: Readonly<Record<string, 'serves' | 'failed'>> = {
  running: 'serves',
  sleeping: 'serves',
  failed: 'failed',
  stopped: 'failed',
  cancelled: 'failed',
  superseded: 'failed',
  deleted: 'failed',
}

/** What a service is deployed for: to serve, to end (a task), or either, as its restart policy allows. */
export type Goal = 'serve' | 'end' | 'either'

/** @returns undefined if the deployment goes on */
export function endOf(status: string, goal: Goal = 'serve'): 'serves' | 'failed' | undefined {
  if (goal !== 'serve' && status === 'stopped') return 'serves'
  return goal === 'end' && ends[status] === 'serves' ? undefined : ends[status]
}
