import type { Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import type { AuditNote, ProjectAccess } from '../http/operation.ts'
import { assertNotCapped, assertWithin, lockLimits } from '../projects/index.ts'
import { type Placement, explain } from '../scheduler/place.ts'
import type { Room } from '../scheduler/room.ts'
import { createDeployment } from './create.ts'
import { assertUsable } from './image-access.ts'
import { assertRoomEver, roomOf, waitingFor } from './room.ts'
import { type DeployShape, deployShape, deploySizes, imageTag } from './rules.ts'
import * as creating from './create-store.ts'

export interface DeployBody {
  readonly image?: string | null
  readonly hypervisor?: string | null
  readonly vcpus?: number | null
  readonly memory_mib?: number | null
  readonly disk_mib?: number | null
  readonly port?: number | null
  readonly dry_run?: boolean | null
}

interface DeployApp {
  readonly id: string
  readonly name: string
  readonly port: number
  readonly desiredReplicas: number
}

export interface DeployCall {
  readonly project: Pick<ProjectAccess, 'id'>
  /** The account that deploys, and its credential. `push`: a webhook delivery of the git host, without an account. */
  readonly caller: { readonly userId?: string; readonly via: { readonly kind: 'session' | 'pat' | 'push' } }
  readonly traceparent: string
  audit(note: AuditNote): void
}

/**
 * The build that makes the deployment's image, and the commit. Parts of the commit that are not known before the build
 * are empty.
 */
export interface DeployBuild {
  readonly buildId: string
  readonly commit: { readonly branch: string; readonly hash: string; readonly message: string; readonly author: string }
}

const triggers = { session: 'manual', pat: 'api', push: 'push' } as const

/**
 * Creates a deployment of an app that the transaction has locked: checks the limits, then writes the rows. Contacts no
 * host.
 * @throws ApiError 400, 403 `plan_limit_exceeded`, 409 when the hosts could not run it even without other VMs
 */
export async function deploy(
  deps: Pick<Deps, 'db' | 'config'>,
  call: DeployCall,
  tx: Tx,
  app: DeployApp,
  { body, build }: { readonly body: DeployBody; readonly build?: DeployBuild },
) {
  const previous = await creating.newest(tx, app.id)
  const shapeOf = build ? unbuiltShape : deployShape
  const shape = shapeOf(
    {
      image: body.image ?? previous?.image,
      hypervisor: body.hypervisor ?? undefined,
      vcpus: body.vcpus ?? previous?.vcpus,
      memory_mib: body.memory_mib ?? previous?.memoryMib,
      disk_mib: body.disk_mib ?? previous?.diskMib,
      port: body.port ?? undefined,
    },
    { port: app.port },
  )
  if (!build) await assertUsable(tx, deps.config, call.project.id, shape.image)
  const replicas = Math.max(app.desiredReplicas, 1)
  const room = await roomOf(deps, tx, app.id, shape)
  assertRoomEver(room, replicas)
  const { placement } = room
  const { plan, isReplacing } = await claimSizes(tx, call.project.id, app.id, shape, replicas)

  if (body.dry_run) {
    call.audit({ action: 'deployment.dry_run', resourceType: 'app', resourceId: app.id })
    return dryRunAnswer(shape, placement, plan)
  }
  const { id, jobId, vmIds } = await createDeployment(tx, {
    ...shape,
    projectId: call.project.id,
    appId: app.id,
    replicas,
    ipv6Prefix: await creating.prefixOf(tx, call.project.id),
    triggerSource: triggers[call.caller.via.kind],
    ...(call.caller.userId === undefined ? {} : { authorId: call.caller.userId }),
    traceparent: call.traceparent,
    ...(build ? { build } : {}),
  })
  call.audit({
    action: 'deployment.create',
    resourceType: 'deployment',
    resourceId: id,
    details: { app: app.name, image: shape.image, vcpus: shape.vcpus, memory_mib: shape.memoryMib, replicas },
  })
  return {
    deployment_id: id,
    job_id: jobId,
    vm_id: vmIds[0] ?? '',
    host_id: '',
    image_tag: imageTag(shape.image),
    status: build ? 'building' : 'pending',
    message: acceptance(isReplacing, room, replicas),
  }
}

/** Returns the shape of a deployment whose image is still to be built. */
const unbuiltShape: typeof deployShape = (request, defaults) => ({ image: '', ...deploySizes(request, defaults) })

function acceptance(isReplacing: boolean, room: Room, replicas: number): string {
  if (isReplacing) return 'Accepted. The old version ends before the new one starts.'
  if (!room.placement.host) return `Accepted, and waiting. ${explain(room.placement)}`
  return `Accepted. ${waitingFor(room, replicas) ?? 'Follow it on the deployments stream, or with: mote logs -f'}`
}

/**
 * Checks the plan's totals for one more VM, with the project locked.
 * @throws ApiError 403 `plan_limit_exceeded`
 */
export async function claimVm(
  tx: Tx,
  projectId: string,
  appId: string,
  { vcpus, memoryMib }: Pick<DeployShape, 'vcpus' | 'memoryMib'>,
): Promise<void> {
  const limits = await lockLimits(tx, projectId)
  await assertNotCapped(tx, projectId)
  const used = await creating.usage(tx, projectId, appId)
  assertWithin(limits, 'maxVcpusTotal', used.vcpus, vcpus)
  assertWithin(limits, 'maxMemoryMibTotal', used.memoryMib, memoryMib)
}

/**
 * Checks the plan's totals while the project is locked. A running version counts together with the version that
 * replaces it until it is gone, unless it ends before that version starts.
 */
async function claimSizes(
  tx: Tx,
  projectId: string,
  appId: string,
  shape: DeployShape,
  replicas: number,
): Promise<{ readonly plan: string; readonly isReplacing: boolean }> {
  const limits = await lockLimits(tx, projectId)
  await assertNotCapped(tx, projectId)
  const now = await creating.usage(tx, projectId, appId)
  const { isReplacing } = now
  const used = isReplacing ? { vcpus: now.vcpus - now.ownVcpus, memoryMib: now.memoryMib - now.ownMemoryMib } : now
  assertWithin(limits, 'maxDeploymentsPerApp', now.deployments)
  assertWithin(limits, 'maxVcpusTotal', used.vcpus, shape.vcpus * replicas)
  assertWithin(limits, 'maxMemoryMibTotal', used.memoryMib, shape.memoryMib * replicas)
  const plan = `vCPUs ${used.vcpus} + ${shape.vcpus * replicas}, memory ${used.memoryMib} + ${shape.memoryMib * replicas} MiB`
  return { plan, isReplacing }
}

function dryRunAnswer(shape: DeployShape, placement: Placement, plan: string) {
  return {
    deployment_id: '',
    job_id: '',
    vm_id: '',
    host_id: placement.host?.id ?? '',
    image_tag: imageTag(shape.image),
    status: 'dry_run',
    message: placement.host
      ? `The VM would run on ${placement.host.name} with ${placement.host.hypervisor}.`
      : explain(placement),
    dry_run: {
      host_id: placement.host?.id ?? null,
      rejected: placement.rejected.map(one => ({ host_id: one.id, reason: one.reason })),
      plan,
    },
  }
}
