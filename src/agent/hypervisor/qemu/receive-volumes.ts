/** The target's side of a live migration with volumes. migrate-volumes.ts has the source's side. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DiskLimits } from '../../base/disk-limits.ts'
import type { ArrivingVolumes } from '../driver.ts'
import { runDir, type VmUser } from '../isolation.ts'
import { clearMark } from '../transfer/marks.ts'
import type { Wire } from '../transfer/wire.ts'
import { hotplug, nodeOf } from './hotplug.ts'
import type { Launched } from './launch.ts'
import { memorySocket } from './migrate.ts'
import { asObject, type Qmp } from './qmp.ts'

export interface Bringing {
  readonly launched: Launched
  readonly dir: string
  readonly user: VmUser | undefined
  readonly diskLimits: DiskLimits
  readonly volumes: ArrivingVolumes
  /**
   * Called with true once the source has given up the VM and the guest starts on this host; with false if the migration
   * failed.
   */
  readonly onGo: (runs: boolean) => void
}

/**
 * Receives the VM and resolves when the guest runs.
 * @throws Error if the migration failed; the guest has not run on this host
 */
export async function takeGuestWithVolumes(wire: Wire, bringing: Bringing): Promise<void> {
  const { launched, dir, user, diskLimits, volumes, onGo } = bringing
  const { qmp, guest } = launched
  try {
    const { addresses } = await wire.expect('volumes')
    const disks = hotplug({ qmp, guest, dir, user, diskLimits })
    for (const { disk, file, key } of await volumes.take(wire)) {
      await disks.insert(disk, file, key, addresses[disk.volumeId], 'exported')
      const node = nodeOf(disk.volumeId)
      await qmp.execute('nbd-server-add', { device: node, name: node, writable: true })
    }
    await qmp.execute('migrate-incoming', { uri: `unix:${runDir}/${memorySocket}` })
    await wire.say({ say: 'loaded' })
    await wire.expect('complete')
    await volumes.keep()
    await wire.say({ say: 'loaded' })
    await wire.expect('go')
    await untilLoaded(qmp)
    await qmp.execute('nbd-server-stop')
    onGo(true)
    // If the agent restarts after the mark is cleared and before `cont`, the new agent finds the only copy of the
    // guest, paused.
    await clearMark(dir, 'arriving')
    await qmp.execute('cont')
    await wire.say({ say: 'running' }).catch(() => undefined)
  } catch (error) {
    onGo(false)
    await wire.say({ say: 'failed', reason: String(error) }).catch(() => undefined)
    throw error
  }
}

async function untilLoaded(qmp: Qmp): Promise<void> {
  for (;;) {
    if (asObject(await qmp.execute('query-status')).status === 'paused') return
    const { status, 'error-desc': reason } = asObject(await qmp.execute('query-migrate'))
    if (status === 'failed')
      throw new Error(
        `receiving the memory and device state of the VM from the source host failed: ${String(reason ?? 'no reason given')}`,
      )
    await sleep(5)
  }
}
