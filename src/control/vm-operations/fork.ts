/**
 * Creates forks: new apps whose VMs resume from a VM snapshot, each with copies of its volumes
 * (docs/decisions/0048-vm-snapshots-with-volumes.md).
 */
import type { Tx } from '../../db/db.ts'
import { prepareApp } from '../apps/index.ts'
import type { Deps } from '../base/deps.ts'
import { assertSizesFit, createDeployment, type Deployment } from '../deployments/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import type { Snapshot, vmOperations } from '../vms/index.ts'
import { creationOf, type ForkedVolume, forkVolumes, type RetainedVolume, lockRetained } from '../volumes/index.ts'
import { keepProcess } from './fork-store.ts'
import { holdSnapshot } from './hold.ts'
import { jobOf, lockedJob } from './job.ts'
import { assertReady } from './restore.ts'

type ForkOperations = Pick<typeof vmOperations, 'forkVmSnapshot'>

const mostReplicas = 20

export const forkHandlers = (deps: Deps): Handlers<ForkOperations> => ({
  forkVmSnapshot: {
    write: async call => {
      const source = await jobOf(deps.db, call)
      const replicas = call.body.replicas ?? 1
      if (replicas < 1 || replicas > mostReplicas) throw invalidField('replicas', `must be from 1 to ${mostReplicas}`)
      const sized = { desired_replicas: replicas, min_replicas: replicas, max_replicas: replicas }
      const create = prepareApp(deps, call.project, {
        name: call.body.app_name,
        git_url: '',
        port: source.port,
        ...sized,
      })
      return async tx => {
        const d = await lockedJob(tx, call)
        const snapshot = await holdSnapshot(tx, d.id, call.params.snapshot_name)
        if (!snapshot) throw notFound()
        assertReady(snapshot)
        assertOneWriter(snapshot, replicas)
        const kept = await lockRetained(tx, snapshot)
        const app = await create(tx)
        await keepProcess(tx, app.id, d.id)
        await assertSizesFit(tx, call.project.id, app.id, snapshot, replicas)
        const { volumes, ...made } = await startFork(tx, d, snapshot, kept, {
          authorId: call.caller.userId,
          app,
          replicas,
          traceparent: call.traceparent,
        })
        const details = { name: snapshot.name, replicas, volumes: volumes.map(one => one.volume.name) }
        call.audit({ action: 'snapshot.fork', resourceType: 'app', resourceId: app.id, details })
        call.audit({
          action: 'app.create',
          resourceType: 'app',
          resourceId: app.id,
          details: { name: app.name, from: snapshot.name },
        })
        for (const { volume, of } of volumes) call.audit(creationOf(volume, { from: of, snapshot: snapshot.name }))
        const ids = { app_name: app.name, deployment_id: made.id, job_id: made.jobId, vm_ids: made.vmIds }
        return { ...ids, status: 'pending', volumes: volumes.map(volumeView) }
      }
    },
  },
})

export interface ForkRequest {
  readonly app: { readonly id: string; readonly name: string }
  readonly replicas: number
  readonly traceparent?: string
  readonly authorId?: string
}

/**
 * Creates the volumes, the deployment and the VMs of a fork. The fork's app already exists.
 * @param kept volumes of the snapshot, as returned by `lockRetained`
 * @throws ApiError 403 `plan_limit_exceeded`, 409 `volume_in_use`, `name_taken`
 */
export async function startFork(
  tx: Tx,
  { hypervisor, image, port, ipv6Prefix }: Pick<Deployment, 'hypervisor' | 'image' | 'port' | 'ipv6Prefix'>,
  snapshot: Snapshot,
  kept: readonly RetainedVolume[],
  { app, replicas, traceparent, authorId }: ForkRequest,
) {
  const volumes = await forkVolumes(tx, snapshot, kept, app)
  const { projectId, vcpus, memoryMib, diskMib } = snapshot
  const made = await createDeployment(tx, {
    hypervisor,
    image,
    port,
    ipv6Prefix,
    vcpus,
    memoryMib,
    diskMib,
    replicas,
    triggerSource: 'api',
    projectId,
    appId: app.id,
    ...(traceparent ? { traceparent } : {}),
    ...(authorId ? { authorId } : {}),
    from: { snapshotId: snapshot.id, hostId: snapshot.hostId, required: true },
  })
  return { ...made, volumes }
}

/**
 * Checks that a fork with several replicas has no writable volume: replicas share the volumes of their app, and only
 * one VM may write to a volume.
 * @throws ApiError 409 `invalid_state` for several replicas of a snapshot with a writable volume
 */
function assertOneWriter({ name, disks }: Snapshot, replicas: number): void {
  const writable = disks.find(disk => !disk.readOnly)
  if (!writable || replicas === 1) return
  throw invalidState(
    `The VM of snapshot ${name} writes to the volume at ${writable.mountPoint}, which only one replica can attach. Fork it with replicas 1, once for each app that you want.`,
  )
}

const volumeView = ({ volume, of, mountPoint, readOnly }: ForkedVolume) => ({
  volume_id: volume.id,
  name: volume.name,
  of,
  mount_point: mountPoint,
  read_only: readOnly,
})
