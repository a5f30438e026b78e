import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unbind } from '../bind.ts'
import type { KeptDisk } from '../driver.ts'
import { runDir, showFile } from '../isolation.ts'
import type { VmContext, VolumeSlots } from '../vmm/platform.ts'
import { asObject, type VmmHttp } from '../vmm-http.ts'
import { diskConfig } from './config.ts'

/** Timeout for the guest to release a disk. */
const ejectMs = 10_000

/** Volumes of one running VM: PCI disks that are attached while the guest runs. */
export function volumeSlots({ api, vmDir, user }: VmContext): VolumeSlots {
  const pathOf = (device: string) => join(vmDir, runDir, device)
  return {
    async find(volumeId) {
      const { device, serial } = volumeNames(volumeId)
      return (await hasDevice(api, device)) ? serial : undefined
    },
    async insert(volumeId, file, readOnly) {
      const { device, serial } = volumeNames(volumeId)
      await showFile(file, pathOf(device), user, 'write')
      await api.call('PUT', '/vm.add-disk', diskConfig({ id: device, serial, path: device, readOnly }))
      return serial
    },
    async grow(volumeId, sizeMib) {
      const { device } = volumeNames(volumeId)
      await api.call('PUT', '/vm.resize-disk', { id: device, desired_size: sizeMib * 2 ** 20 })
    },
    async remove(volumeId) {
      const { device } = volumeNames(volumeId)
      if (await hasDevice(api, device)) {
        await api.call('PUT', '/vm.remove-device', { id: device })
        await untilEjected(api, device)
      }
      await unbind(pathOf(device))
    },
  }
}

async function untilEjected(api: VmmHttp, device: string): Promise<void> {
  const deadline = performance.now() + ejectMs
  while (await hasDevice(api, device)) {
    if (performance.now() > deadline) throw new Error('the guest did not detach the disk in time')
    await sleep(10)
  }
}

async function hasDevice(api: VmmHttp, id: string): Promise<boolean> {
  return id in asObject(asObject(await api.call('GET', '/vm.info')).device_tree)
}

/** Derives a volume's names from the last, random part of its UUID: a virtio disk's serial has at most 20 bytes. */
export function volumeNames(volumeId: string): { device: string; serial: string } {
  const serial = volumeId.replaceAll('-', '').slice(-20)
  return { device: `volume-${serial}`, serial }
}

/**
 * In a file of a snapshot, replaces the names of volumes by the names of their clones. Device ids occur in the
 * settings, the device tree and the state of each device; disks are identified by serial. Replaces text instead of
 * parsing JSON, because numbers may have more digits than JavaScript can represent.
 */
export function renamed(text: string, volumes: readonly Pick<KeptDisk, 'disk' | 'of'>[]): string {
  const names = volumes.flatMap(({ disk, of }) => (disk.volumeId === of ? [] : [[of, disk.volumeId].map(volumeNames)]))
  const own = new Map(names.flatMap(([was, is]) => (was && is ? [[was.device, is.device] as const] : [])))
  const serials = new Map(names.flatMap(([was, is]) => (was && is ? [[was.serial, is.serial] as const] : [])))
  return text
    .replace(/volume-[0-9A-Za-z_]+/g, device => own.get(device) ?? device)
    .replace(/(\\?"serial\\?"\s*:\s*\\?")([0-9A-Za-z_]+)/g, (_, key: string, serial: string) => {
      return `${key}${serials.get(serial) ?? serial}`
    })
}
