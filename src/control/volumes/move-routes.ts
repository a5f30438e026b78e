import type { Sql, Tx } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { findHost } from '../hosts/index.ts'
import { invalidField, invalidState, notFound } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { cancelMove, newestMove, type VolumeMove } from '../moves/index.ts'
import { moveVolume, whyNotMoved } from './move.ts'
import type { VolumeMoveStatus } from './resources.ts'
import type { volumeOperations } from './schema.ts'
import * as store from './store.ts'

type MoveHandlers = Handlers<Pick<typeof volumeOperations, 'moveVolume' | 'getVolumeMove' | 'cancelVolumeMove'>>
interface VolumeCall {
  readonly project: { readonly id: string }
  readonly params: { readonly volume_id: string }
}

export const moveHandlers = (deps: Pick<Deps, 'db' | 'config'>): MoveHandlers => ({
  moveVolume: {
    write: async call => async tx => {
      const volume = await own(tx, call)
      const target = await findHost(tx, deps.config.hostTimeoutSeconds, call.body.target_host)
      if (!target)
        throw invalidField('target_host', 'must be the id or name of a registered host; see GET /v1/admin/hosts')
      const source = volume.hostId && (await findHost(tx, deps.config.hostTimeoutSeconds, volume.hostId))
      await moveVolume(tx, volume.id, target, source || undefined)
      const details = { name: volume.name, to: target.name }
      call.audit({ action: 'volume.move', resourceType: 'volume', resourceId: volume.id, details })
      return viewOf(tx, await own(tx, call))
    },
  },
  getVolumeMove: { read: async call => viewOf(deps.db, await own(deps.db, call)) },
  cancelVolumeMove: {
    write: async call => async tx => {
      const volume = await own(tx, call)
      const move = await newestMove(tx, volume.id)
      if (!move || move.endedAt) throw invalidState('The volume has no move in progress.')
      if (move.migrationId)
        throw invalidState('The volume moves together with its VM. Cancel the migration of the VM instead.')
      if (move.want !== 'cancel' && !(await cancelMove(tx, move.id)))
        throw invalidState('The move can no longer be canceled: the volume is already on the target host.')
      const details = { name: volume.name }
      call.audit({ action: 'volume.move_cancel', resourceType: 'volume', resourceId: volume.id, details })
      return viewOf(tx, await own(tx, call))
    },
  },
})

/** Finds a volume of the user in the project. @throws ApiError 404 for any other volume */
async function own(sql: Tx | Deps['db'], { project, params }: VolumeCall): Promise<store.Volume> {
  const volume = await store.inProject(sql, project.id, params.volume_id)
  if (!volume) throw notFound()
  return volume
}

/** Returns the volume's last move, its host, and the reason why it cannot move now, if there is one. */
async function viewOf(sql: Sql, volume: store.Volume): Promise<VolumeMoveStatus> {
  const obstacle = (await whyNotMoved(sql, volume))?.message ?? null
  return { ...lastMove(await newestMove(sql, volume.id)), host_id: volume.hostId, obstacle }
}

const lastMove = (m: VolumeMove | undefined): Omit<VolumeMoveStatus, 'host_id' | 'obstacle'> =>
  m
    ? {
        move_id: m.id,
        status: m.state,
        source_host: m.sourceHostId,
        target_host: m.targetHostId,
        percent: m.percent,
        transferred_bytes: m.transferredBytes,
        total_bytes: m.totalBytes,
        error: m.error,
        started_at: m.startedAt.toISOString(),
        ended_at: m.endedAt?.toISOString() ?? null,
      }
    : { status: 'none' }
