import type { Deps } from '../base/deps.ts'
import { type HostRow, findHost, reserve } from '../hosts/index.ts'
import { ApiError, invalidField, invalidState } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { type vmOperations } from '../vms/index.ts'
import {
  cancelMigration,
  chooseMove,
  type CoMoved,
  coMovedOf,
  type Migration,
  type MovePlan,
  moveObstacle,
  newestMigration,
  startMigration,
} from '../migrations/index.ts'
import type { MigrationStatus } from '../vms/schema.ts'
import { jobOf, lockedJob, type Placed, placedVm, requireCapability } from './job.ts'

type MigrationOperations = Pick<typeof vmOperations, 'startMigration' | 'cancelMigration' | 'getMigration'>

export const migrationHandlers = (deps: Pick<Deps, 'db' | 'config'>): Handlers<MigrationOperations> => ({
  startMigration: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const placed = await placedVm(deps, tx, d)
      const coMoved = await coMovedOf(tx, placed.vm.id)
      const obstacle = moveObstacle(placed.vm, coMoved)
      if (obstacle) throw invalidState(obstacle)
      const target = await findHost(tx, deps.config.hostTimeoutSeconds, call.body.target_host)
      if (!target)
        throw invalidField('target_host', 'must be the id or name of a registered host; see GET /v1/admin/hosts')
      assertTarget(placed, target, call.body.target_uri)
      const running = await newestMigration(tx, d.id)
      if (running && !running.endedAt)
        throw new ApiError(
          'operation_in_progress',
          'The VM is already moving to another host. Wait, or cancel the migration.',
        )
      if (!(await reserve(tx, target.id, d)))
        throw new ApiError('no_capacity', `Host ${target.name} has no room for the VM now.`, { retryAfterSeconds: 30 })
      const { vm, host } = placed
      const { method, volumes, withVolumes } = planOf(placed, target, coMoved)
      const ends = { sourceHostId: host.id, targetHostId: target.id }
      await startMigration(tx, { ...d, deploymentId: d.id, vmId: vm.id, ...ends, method, withVolumes }, volumes)
      const details = { from: host.name, to: target.name, method }
      call.audit({ action: 'migration.start', resourceType: 'deployment', resourceId: d.id, details })
      return viewOf(await newestMigration(tx, d.id))
    },
  },

  getMigration: { read: async call => viewOf(await newestMigration(deps.db, (await jobOf(deps.db, call)).id)) },

  cancelMigration: {
    write: async call => async tx => {
      const d = await lockedJob(tx, call)
      const running = await newestMigration(tx, d.id)
      if (!running || running.endedAt) throw invalidState('The VM has no migration in progress.')
      if (running.want !== 'cancel' && !(await cancelMigration(tx, running.id)))
        throw invalidState('The migration can no longer be canceled: the VM already runs on the target host.')
      call.audit({ action: 'migration.cancel', resourceType: 'deployment', resourceId: d.id })
      return viewOf(await newestMigration(tx, d.id))
    },
  },
})

/**
 * Returns the plan of the migration. @throws ApiError 409 `unsupported_by_hypervisor` or `invalid_state`, with the
 * reason why the VM cannot move with its volumes
 */
function planOf(placed: Placed, target: HostRow, coMoved: CoMoved): MovePlan {
  const choice = chooseMove(placed.vm, placed.host, target, coMoved)
  if ('plan' in choice) return choice.plan
  requireCapability(placed, 'migrate')
  if (coMoved.disks.length > 0 || placed.vm.want === 'paused') throw invalidState(choice.why)
  throw new ApiError('unsupported_by_hypervisor', choice.why)
}

/** Checks that the VM can move to the target host. @throws ApiError 400 or 409 with the reason */
function assertTarget({ host }: Placed, target: HostRow, uri: string): void {
  if (target.id === host.id) throw invalidField('target_host', `the VM is already on ${host.name}`)
  // The target host chooses the address at which it listens for the migration. If the caller gives a URI, it may only
  // name the target host.
  const named = /^[a-z+-]+:(?:\/\/)?([^/:]+)/.exec(uri)?.[1]
  if (uri !== '' && named !== target.name && named !== target.id)
    throw invalidField('target_uri', 'must be empty, or name the target host itself')
  if (!target.up || target.cordoned)
    throw invalidState(`Host ${target.name} accepts no VMs now: it is ${target.up ? 'cordoned' : 'not reporting'}.`)
  if (target.arch !== host.arch) throw invalidState(`Host ${target.name} is ${target.arch}; the VM needs ${host.arch}.`)
}

const viewOf = (m: Migration | undefined): MigrationStatus =>
  m
    ? {
        migration_id: m.id,
        status: m.state,
        phase: m.state,
        method: m.method,
        with_volumes: m.withVolumes,
        vm_id: m.vmId,
        source_host: m.sourceHostId,
        target_host: m.targetHostId,
        percent: m.percent,
        transferred_bytes: m.transferredBytes,
        total_bytes: m.totalBytes,
        downtime_ms: m.downtimeMs,
        error: m.error,
        started_at: m.startedAt.toISOString(),
        ended_at: m.endedAt?.toISOString() ?? null,
      }
    : { status: 'none', phase: 'none' }
