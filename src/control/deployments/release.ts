import type { Tx } from '../../db/db.ts'
import { minutes } from '../../lib/duration.ts'
import { createRun } from '../runs/index.ts'
import type { Deployment } from './store.ts'

const timeoutSeconds = 3600
/** Deadline of the release phase. The release command may run for an hour, after its VM has waited for capacity. */
export const releaseDeadlineMs = minutes(90)

/** Starts the release command of a deployment in a separate VM. */
export const startRelease = (tx: Tx, d: Deployment) =>
  createRun(tx, {
    accountId: null,
    purpose: 'release',
    command: d.releaseCommand,
    timeoutSeconds,
    of: { ...d, deploymentId: d.id },
  })
