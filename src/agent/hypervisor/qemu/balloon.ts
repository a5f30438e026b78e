import { countOf } from '../../guest/answers.ts'
import type { VmHome } from '../driver.ts'
import { balloonTarget, type GuestMemory } from '../running-vm.ts'
import { asObject, type Qmp } from './qmp.ts'

const balloonPath = '/machine/peripheral/balloon0'

/** Sets how much memory the balloon leaves to the guest. The QMP command `balloon` takes this value in bytes. */
export async function setBalloon(qmp: Qmp, targetMib: number | null, memoryMib: number): Promise<void> {
  await qmp.execute('balloon', { value: balloonTarget(targetMib, memoryMib) * 2 ** 20 })
}

export async function readMemory(qmp: Qmp): Promise<GuestMemory> {
  const [guest, balloon] = await Promise.all([
    qmp.execute('qom-get', { path: balloonPath, property: 'guest-stats' }),
    qmp.execute('query-balloon'),
  ])
  const stats = asObject(asObject(guest).stats)
  const total = countOf(stats['stat-total-memory'])
  const available = countOf(stats['stat-available-memory'])
  const ramUsedBytes = total > 0 && available > 0 && available <= total ? total - available : 0
  return { ramUsedBytes, balloonActualMib: Math.round(countOf(asObject(balloon).actual) / 2 ** 20) }
}

/**
 * Makes QEMU poll the balloon's statistics every second. VMs of builds have no balloon (`optionalDevices` in argv.ts).
 */
export async function enableMemoryStats(qmp: Qmp, { drives = [] }: Pick<VmHome, 'drives'>): Promise<void> {
  if (drives.length > 0) return
  await qmp.execute('qom-set', { path: balloonPath, property: 'guest-stats-polling-interval', value: 1 })
}
