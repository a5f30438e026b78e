import type { Static } from 'typebox'
import { logSource } from '../../contract/log-page.ts'
import type { AppLine } from './read.ts'
import type { LogLine } from './resources.ts'

/** Formats a time with microseconds, because many log lines have the same millisecond. */
export const timeOf = (atUs: number) =>
  `${new Date(Math.floor(atUs / 1000)).toISOString().slice(0, -1)}${String(atUs % 1000).padStart(3, '0')}Z`

export const lineView = ({ atUs, stream, line, deploymentId, vmId }: AppLine): Static<typeof LogLine> => ({
  at: timeOf(atUs),
  source: logSource[stream],
  stream,
  line,
  deployment_id: deploymentId,
  vm_id: vmId,
})
