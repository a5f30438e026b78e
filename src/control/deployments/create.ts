import { randomUUID } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import { createWorkflow, pokeMany } from '../../engine/runner.ts'
import { hours, minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { createVm, type StartFrom } from '../vms/index.ts'
import { announceById } from './announce.ts'
import * as creating from './create-store.ts'
import * as store from './store.ts'

/**
 * Creates a deployment: its row, its VMs and their workflows. Without an image the deployment waits for its build, and
 * its VMs are created afterwards.
 */
export async function createDeployment(
  tx: Tx,
  request: Omit<creating.NewDeployment, 'id' | 'jobId'> & {
    readonly replicas: number
    readonly ipv6Prefix: string
    readonly from?: StartFrom
  },
): Promise<{ id: string; jobId: string; vmIds: string[] }> {
  const id = newId()
  const jobId = `job-${randomUUID().replaceAll('-', '').slice(0, 16)}`
  await creating.insert(tx, { ...request, id, jobId })
  await creating.keepEnv(tx, id, request.appId)
  const awaitsImage = request.image === ''
  await createWorkflow(tx, 'deployment', id, awaitsImage ? 'building' : 'rolling', {
    deadlineMs: awaitsImage ? hours(2) : minutes(30),
  })
  const vmIds: string[] = []
  for (let n = 0; n < request.replicas && !awaitsImage; n++) {
    const vmId = newId()
    vmIds.push(vmId)
    await createVm(tx, { ...request, id: vmId, deploymentId: id })
  }
  // When only one VM may attach the app's volume, running deployments must yield it.
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, request.appId, id))
  await announceById(tx, id)
  return { id, jobId, vmIds }
}
