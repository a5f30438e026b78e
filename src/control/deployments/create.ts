import { randomUUID } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import { createWorkflow, pokeMany } from '../../engine/runner.ts'
import { hours, minutes } from '../../lib/duration.ts'
import { newId } from '../../lib/ids.ts'
import { createVm, type StartFrom } from '../vms/index.ts'
import { announceById } from './announce.ts'
import { creatable } from './one-at-a-time.ts'
import { releaseDeadlineMs } from './release.ts'
import * as creating from './create-store.ts'
import * as store from './store.ts'

const deadlines = { building: hours(2), releasing: releaseDeadlineMs, rolling: minutes(30) } as const

/**
 * Creates a deployment: its row, its VMs and their workflows. Without an image, its VMs are created after the build;
 * with a release command, after that command.
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
  await creating.keepFiles(tx, id, request.appId)
  const awaitsImage = request.image === ''
  const releases = await creating.keepReleaseCommand(tx, id, request.appId)
  const first = awaitsImage ? 'building' : releases ? 'releasing' : 'rolling'
  await createWorkflow(tx, 'deployment', id, first, { deadlineMs: deadlines[first] })
  const vmIds: string[] = []
  const count = first === 'rolling' ? await creatable(tx, request.appId, request.replicas) : 0
  for (let n = 0; n < count; n++) {
    const vmId = newId()
    vmIds.push(vmId)
    await createVm(tx, { ...request, id: vmId, deploymentId: id })
  }
  // The running deployments of the app are poked: if the app is exclusive (one-at-a-time.ts), they must remove VMs to
  // make room.
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, request.appId, id))
  await announceById(tx, id)
  return { id, jobId, vmIds }
}
