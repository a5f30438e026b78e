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

/** A task has done its work when its program has ended. @returns undefined if the deployment goes on */
export function endOf(status: string, isTask = false): 'serves' | 'failed' | undefined {
  if (isTask && status === 'stopped') return 'serves'
  return isTask && ends[status] === 'serves' ? undefined : ends[status]
}
