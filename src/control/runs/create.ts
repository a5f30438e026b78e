import type { Tx } from '../../db/db.ts'
import { createWorkflow, poke } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { createVm, type NewVm } from '../vms/index.ts'
import * as store from './store.ts'

export interface NewRun extends Pick<store.Run, 'accountId' | 'purpose' | 'command' | 'timeoutSeconds'> {
  /** The job to which the run belongs, if any. */
  readonly job?: store.JobOfRun
  /** The deployment whose image and environment the VM gets, and the size of the VM. */
  readonly of: Pick<NewVm, 'projectId' | 'appId' | 'deploymentId' | 'vcpus' | 'memoryMib' | 'diskMib' | 'ipv6Prefix'>
}

/** Creates a run with its VM. The caller must hold the lock on the deployment. @returns the id of the run */
export async function createRun(tx: Tx, { of, ...run }: NewRun): Promise<string> {
  const id = newId()
  const { projectId, appId, deploymentId } = of
  await store.insert(tx, { ...run, id, projectId, appId, deploymentId })
  await createVm(tx, { ...of, id: newId(), runId: id })
  await createWorkflow(tx, 'run', id, 'starting', { deadlineMs: minutes(20) })
  return id
}

/** Requests that a run ends. Has no effect on a run that has ended. */
export async function cancelRun(tx: Tx, id: string): Promise<void> {
  await store.cancel(tx, id)
  await poke(tx, 'run', id)
}

/** Cancels the release command of a deployment that will never serve requests. */
export async function cancelRelease(tx: Tx, deploymentId: string): Promise<void> {
  for (const id of await store.openReleases(tx, deploymentId)) await cancelRun(tx, id)
}

/** Wakes the workflows of the runs of a deployment that is being deleted, so that they end the runs. */
export async function pokeRuns(tx: Tx, deploymentId: string): Promise<void> {
  for (const id of await store.openIds(tx, deploymentId)) await poke(tx, 'run', id)
}
