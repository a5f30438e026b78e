import { join } from 'node:path'
import type { Machine } from '../driver.ts'
import { encodeWord } from '../../guest/words.ts'
import { StepError } from '../../vm/errors.ts'
import { unbind } from '../bind.ts'
import { showFile } from '../isolation.ts'
import type { VmContext } from '../launch.ts'
import { untilThere } from '../until-there.ts'
import { asObject } from '../vmm-http.ts'
import { cellName, driveSerial, emptyDrive } from './cell.ts'
import { slots } from './requests.ts'

const answerMs = 5_000

type Volumes = Required<Pick<Machine, 'attachDisk' | 'detachDisk'>>

/**
 * Volumes of one running machine: each takes one of the drives that were there from the start, whose file is exchanged
 * (`PATCH /drives`). Which volume is where, Firecracker itself knows, so there is nothing to store.
 */
export function volumes(vm: VmContext): Volumes {
  const { api, guest, vmDir, user } = vm
  const cell = join(vmDir, cellName)
  const use = (id: string, file: string) => api.call('PATCH', `/drives/${id}`, { drive_id: id, path_on_host: file })
  return {
    async attachDisk({ volumeId, readOnly, mountPoint }, file) {
      const name = fileOf(volumeId)
      const taken = await drivesIn(vm)
      if (!taken.has(name)) {
        const free = slots.find(slot => slot.readOnly === readOnly && taken.get(emptyDrive)?.has(slot.id))
        if (!free) throw new StepError('too_many_volumes', noRoom(readOnly))
        await showFile(file, join(cell, name), user, 'write')
        await use(free.id, name)
      }
      const serial = await driveSerial(join(cell, name))
      const line = `mount ${serial} ${readOnly ? 'ro' : 'rw'} ${encodeWord(mountPoint)}`
      await untilThere(() => guest.request(line, answerMs))
    },
    async detachDisk({ volumeId, mountPoint }) {
      const name = fileOf(volumeId)
      const [slot] = (await drivesIn(vm)).get(name) ?? []
      if (slot) {
        await guest.request(`unmount ${await driveSerial(join(cell, name))} ${encodeWord(mountPoint)}`, answerMs)
        await use(slot, emptyDrive)
      }
      await unbind(join(cell, name))
    },
  }
}

function fileOf(volumeId: string): string {
  return `volume-${volumeId}.img`
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
