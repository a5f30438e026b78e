import { randomUUID } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import { createMachine } from '../../engine/runner.ts'
import { minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { createVm, type StartFrom } from '../vms/index.ts'
import { announceById } from './announce.ts'
import * as store from './store.ts'

/** Makes the rows of a new deployment: the record, its VMs and their machines. The runner does the rest. */
export async function createDeployment(
  tx: Tx,
  request: Omit<store.NewDeployment, 'id' | 'jobId'> & {
    readonly replicas: number
    readonly ipv6Prefix: string
    readonly from?: StartFrom
  },
): Promise<{ id: string; jobId: string; vmIds: string[] }> {
  const id = newId()
  const jobId = `job-${randomUUID().replaceAll('-', '').slice(0, 16)}`
  await store.insert(tx, { ...request, id, jobId })
  await store.keepEnv(tx, id, request.appId)
  await createMachine(tx, 'deployment', id, 'rolling', { deadlineMs: minutes(30) })
  const vmIds: string[] = []
  for (let n = 0; n < request.replicas; n++) {
    const vmId = newId()
    vmIds.push(vmId)
    await createVm(tx, { ...request, id: vmId, deploymentId: id })
  }
  await announceById(tx, id)
  return { id, jobId, vmIds }
}
