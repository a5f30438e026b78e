import { asObject, type Qmp } from './qmp.ts'

const balloonPath = '/machine/peripheral/balloon0'

/** What a guest is always left: less than this, and its kernel would kill its own programs. */
export function balloonFloorMib(memoryMib: number): number {
  return Math.min(memoryMib, Math.max(64, Math.ceil(memoryMib / 4)))
}

/** The target in QMP's `balloon` is what the guest keeps, in bytes, not what is taken. */
export async function setBalloon(qmp: Qmp, targetMib: number | null, memoryMib: number): Promise<void> {
  const wanted = Math.min(memoryMib, Math.max(targetMib ?? memoryMib, balloonFloorMib(memoryMib)))
  await qmp.execute('balloon', { value: wanted * 2 ** 20 })
}

export interface GuestMemory {
  /** 0 until the guest has reported for the first time. */
  readonly ramUsedBytes: number
  readonly balloonActualMib: number
}

export async function readMemory(qmp: Qmp): Promise<GuestMemory> {
  const [guest, balloon] = await Promise.all([
    qmp.execute('qom-get', { path: balloonPath, property: 'guest-stats' }),
    qmp.execute('query-balloon'),
  ])
  const stats = asObject(asObject(guest).stats)
  const total = Number(stats['stat-total-memory'])
  const available = Number(stats['stat-available-memory'])
  const ramUsedBytes = total > 0 && available > 0 && available <= total ? total - available : 0
  return { ramUsedBytes, balloonActualMib: Math.round(Number(asObject(balloon).actual) / 2 ** 20) }
}

/** Asks the guest's balloon for statistics every second. */
export async function enableMemoryStats(qmp: Qmp): Promise<void> {
  await qmp.execute('qom-set', { path: balloonPath, property: 'guest-stats-polling-interval', value: 1 })
}
