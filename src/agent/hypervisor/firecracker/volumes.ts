import { join } from 'node:path'
import { StepError } from '../../base/step-error.ts'
import { unbind } from '../bind.ts'
import { showFile } from '../isolation.ts'
import type { KeptDisk } from '../driver.ts'
import { place, type VmmCell } from '../vmm/cell.ts'
import type { VmContext, VolumeSlots } from '../vmm/platform.ts'
import { asObject, type VmmHttp } from '../vmm-http.ts'
import { cellName, driveSerial, emptyDrive } from './cell.ts'
import { slots } from './requests.ts'

export const volumeFile = (volumeId: string): string => `volume-${volumeId}.img`

/**
 * Volumes of one running VM. Each volume uses one of the placeholder drives that were created at boot: attaching it
 * replaces the drive's file (`PATCH /drives`).
 */
export function volumeSlots(vm: VmContext): VolumeSlots {
  const { api, vmDir, user } = vm
  const pathOf = (volumeId: string) => join(vmDir, cellName, volumeFile(volumeId))
  return {
    async find(volumeId) {
      return (await drivesIn(api)).has(volumeFile(volumeId)) ? driveSerial(pathOf(volumeId)) : undefined
    },
    async insert(volumeId, file, readOnly) {
      const empty = (await drivesIn(api)).get(emptyDrive)
      const free = slots.find(slot => slot.readOnly === readOnly && empty?.has(slot.id))
      if (!free) throw new StepError('too_many_volumes', noRoom(readOnly))
      await showFile(file, pathOf(volumeId), user, 'write')
      await use(api, free.id, volumeFile(volumeId))
      return driveSerial(pathOf(volumeId))
    },
    // Firecracker reads the file's size again on each PATCH of a drive, even if the path is the same.
    async grow(volumeId) {
      const [slot] = (await drivesIn(api)).get(volumeFile(volumeId)) ?? []
      if (slot) await use(api, slot, volumeFile(volumeId))
    },
    async remove(volumeId) {
      const [slot] = (await drivesIn(api)).get(volumeFile(volumeId)) ?? []
      if (slot) await use(api, slot, emptyDrive)
      await unbind(pathOf(volumeId))
    },
  }
}

/** Gives a clone its own file name. It was loaded under the file name of the volume that it replaces. */
export async function takeOwnName(api: VmmHttp, cell: VmmCell, { disk, file, of }: KeptDisk): Promise<void> {
  if (disk.volumeId === of) return
  const own = volumeFile(disk.volumeId)
  await place(cell, file, own, 'write')
  const [slot] = (await drivesIn(api)).get(volumeFile(of)) ?? []
  if (!slot) throw new StepError('snapshot_mismatch', `the snapshot has no drive for volume ${of}`)
  await use(api, slot, own)
  await unbind(join(cell.dir, volumeFile(of)))
}

const use = (api: VmmHttp, id: string, file: string) =>
  api.call('PATCH', `/drives/${id}`, { drive_id: id, path_on_host: file })

function noRoom(readOnly: boolean): string {
  const room = slots.filter(slot => slot.readOnly === readOnly).length
  return `a Firecracker VM has room for ${room} ${readOnly ? 'read-only' : 'writable'} volumes: detach one first`
}

/** Returns for each file name the drives that use the file. */
async function drivesIn(api: VmmHttp): Promise<Map<string, Set<string>>> {
  const { drives } = asObject(await api.call('GET', '/vm/config'))
  const found = new Map<string, Set<string>>()
  for (const one of Array.isArray(drives) ? drives.map(asObject) : []) {
    const file = String(one.path_on_host)
    found.set(file, (found.get(file) ?? new Set()).add(String(one.drive_id)))
  }
  return found
}
