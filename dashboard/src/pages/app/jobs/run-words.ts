/** Names and durations of runs, for lists and titles. */
import type { Run } from '@mote/client'

export const isOpen = (run: Run) => run.ended_at === null

export function nameOf(run: Run): string {
  if (run.purpose === 'release') return 'Release command'
  if (run.purpose === 'job') return run.job_name ?? 'Deleted job'
  return run.command === null ? 'Sessions' : 'Command'
}

/** Duration of a run's program; undefined if it has not started or not ended. */
export const tookMs = ({ started_at, ended_at }: Run) =>
  started_at !== null && ended_at !== null ? Date.parse(ended_at) - Date.parse(started_at) : undefined
