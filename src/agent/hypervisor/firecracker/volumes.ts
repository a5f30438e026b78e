import { join } from 'node:path'
import { StepError } from '../../vm/errors.ts'
import { unbind } from '../bind.ts'
import { showFile } from '../isolation.ts'
import type { VmContext, VolumeSlots } from '../vmm/platform.ts'
import { asObject } from '../vmm-http.ts'
import { cellName, driveSerial, emptyDrive } from './cell.ts'
import { slots } from './requests.ts'

/**
 * Volumes of one running machine: each takes one of the drives that were there from the start, whose file is exchanged
 * (`PATCH /drives`).
 */
export function volumeSlots(vm: VmContext): VolumeSlots {
  const { api, vmDir, user } = vm
  const fileOf = (volumeId: string) => `volume-${volumeId}.img`
  const pathOf = (volumeId: string) => join(vmDir, cellName, fileOf(volumeId))
  const use = (id: string, file: string) => api.call('PATCH', `/drives/${id}`, { drive_id: id, path_on_host: file })
  return {
    async find(volumeId) {
      return (await drivesIn(vm)).has(fileOf(volumeId)) ? driveSerial(pathOf(volumeId)) : undefined
    },
    async insert(volumeId, file, readOnly) {
      const empty = (await drivesIn(vm)).get(emptyDrive)
      const free = slots.find(slot => slot.readOnly === readOnly && empty?.has(slot.id))
      if (!free) throw new StepError('too_many_volumes', noRoom(readOnly))
      await showFile(file, pathOf(volumeId), user, 'write')
      await use(free.id, fileOf(volumeId))
      return driveSerial(pathOf(volumeId))
    },
    // It looks at the file's size whenever it is told of a file, the same one too.
    async grow(volumeId) {
      const [slot] = (await drivesIn(vm)).get(fileOf(volumeId)) ?? []
      if (slot) await use(slot, fileOf(volumeId))
    },
    async remove(volumeId) {
      const [slot] = (await drivesIn(vm)).get(fileOf(volumeId)) ?? []
      if (slot) await use(slot, emptyDrive)
      await unbind(pathOf(volumeId))
    },
  }
}

function noRoom(readOnly: boolean): string {
  const room = slots.filter(slot => slot.readOnly === readOnly).length
  return `a Firecracker VM has room for ${room} ${readOnly ? 'read-only' : 'writable'} volumes: detach one first`
}

/** File name to the drives that show it. */
async function drivesIn({ api }: VmContext): Promise<Map<string, Set<string>>> {
  const { drives } = asObject(await api.call('GET', '/vm/config'))
  const found = new Map<string, Set<string>>()
  for (const one of Array.isArray(drives) ? drives.map(asObject) : []) {
    const file = String(one.path_on_host)
    found.set(file, (found.get(file) ?? new Set()).add(String(one.drive_id)))
  }
  return found
}
