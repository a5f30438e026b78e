import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import type { DiskSpec } from '../../../contract/agent.ts'
import { type DiskLimits, qemuThrottle } from '../../base/disk-limits.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import { encodeWord } from '../../../lib/words.ts'
import { StepError } from '../../base/step-error.ts'
import { unbind } from '../bind.ts'
import { runDir, showFile, type VmUser } from '../isolation.ts'
import { asObject, type Qmp } from './qmp.ts'

/** Timeout for the guest's kernel to detect a disk: it takes 50 ms, but the first disk longer (SCSI modules load). */
const foundMs = 10_000
const answerMs = 5_000
/** Timeout for growing a file system, which for a terabyte writes many new group descriptors. */
const growMs = 60_000
/** Maximum length of a serial in INQUIRY page 0x80 of QEMU's scsi-hd. */
const serialChars = 36

/** Address of a volume's disk on the VM's SCSI bus. */
export const ScsiAddress = Type.Object({ channel: Type.Integer(), id: Type.Integer(), lun: Type.Integer() })
export type ScsiAddress = Static<typeof ScsiAddress>

/** Volumes of one running VM. They are SCSI disks, because virtio-mmio devices cannot be added at run time. */
export interface Hotplug {
  /**
   * Attaches the file to the guest without mounting it. Idempotent.
   * @param at address on the SCSI bus; default: a free one
   * @param use `exported`: the source host writes to the file until the guest runs on this host; see
   * `comesOverTheNetwork` in argv.ts
   */
  insert(
    disk: Pick<DiskSpec, 'volumeId' | 'readOnly'>,
    file: string,
    key?: string,
    at?: ScsiAddress,
    use?: 'own' | 'exported',
  ): Promise<void>
  /** Returns the SCSI address of each volume. A VM that starts from this VM's saved state needs the same addresses. */
  addresses(): Promise<Record<string, ScsiAddress>>
  /** Attaches and mounts the file. @param key if the file is a LUKS container, its passphrase */
  attach(disk: DiskSpec, file: string, key?: string): Promise<void>
  detach(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /** Grows the guest's disk and its file system to this size. Idempotent. */
  grow(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>, sizeMib: number): Promise<void>
}

export interface HotplugOptions {
  readonly qmp: Qmp
  readonly guest: GuestChannel
  readonly dir: string
  /** The user that QEMU runs as. Files that are attached later must be owned by this user and in the run directory. */
  readonly user: VmUser | undefined
  readonly diskLimits: DiskLimits
}

export function hotplug({ qmp, guest, dir, user, diskLimits }: HotplugOptions): Hotplug {
  const insert: Hotplug['insert'] = async ({ volumeId, readOnly }, file, key, at, use = 'own') => {
    if (volumeId.length > serialChars)
      throw new StepError('invalid_volume', `a volume id can have at most ${serialChars} characters`)
    const { node, device } = namesOf(volumeId)
    if (!(await hasNode(qmp, node))) {
      const filename = user ? join(runDir, node) : file
      if (user) await showFile(file, join(dir, filename), user, 'write')
      const storage = { driver: 'file', filename, discard: 'unmap', 'read-only': readOnly }
      if (key) await addSecret(qmp, secretOf(node), key)
      await qmp.execute('blockdev-add', {
        ...(key ? { driver: 'luks', 'key-secret': secretOf(node) } : { driver: 'raw' }),
        'node-name': node,
        'read-only': readOnly,
        discard: 'unmap',
        file: storage,
      })
    }
    if (await hasDevice(qmp, device)) return
    const place = at ? { channel: at.channel, 'scsi-id': at.id, lun: at.lun } : {}
    await qmp.execute('device_add', {
      driver: 'scsi-hd',
      bus: 'scsi0.0',
      id: device,
      drive: node,
      serial: volumeId,
      // By default QEMU 10 uses the serial as device id, and refuses more than 20 characters.
      device_id: volumeId.replaceAll('-', '').slice(-20),
      ...place,
      ...(use === 'exported' ? { 'share-rw': true } : {}),
    })
    await throttle(qmp, device, diskLimits)
  }
  return {
    insert,
    addresses: () => addressesOf(qmp),
    async attach(disk, file, key) {
      const { volumeId, readOnly, mountPoint } = disk
      await insert(disk, file, key)
      await askUntilThere(guest, `mount ${volumeId} ${readOnly ? 'ro' : 'rw'} ${encodeWord(mountPoint)}`)
    },
    async detach({ volumeId, mountPoint }) {
      const { node, device } = namesOf(volumeId)
      if (await hasDevice(qmp, device)) {
        await guest.request(`unmount ${volumeId} ${encodeWord(mountPoint)}`, answerMs)
        await qmp.execute('device_del', { id: device })
        await until(async () => !(await hasDevice(qmp, device)))
      }
      // QEMU uses the block node until a moment after it has removed the device.
      const removeNode = () => qmp.execute('blockdev-del', { 'node-name': node }).then(() => true)
      if (await hasNode(qmp, node)) await until(() => removeNode().catch(inUse))
      await removeSecret(qmp, secretOf(node))
      await unbind(join(dir, runDir, node))
    },
    async grow({ volumeId, mountPoint }, sizeMib) {
      await qmp.execute('block_resize', { 'node-name': namesOf(volumeId).node, size: sizeMib * 2 ** 20 })
      await guest.request(`grow ${volumeId} ${encodeWord(mountPoint)}`, growMs)
    },
  }
}

async function throttle(qmp: Qmp, device: string, limits: DiskLimits): Promise<void> {
  const { bps, bpsMax, iops, iopsMax } = qemuThrottle(limits)
  await qmp.execute('block_set_io_throttle', {
    id: device,
    bps,
    bps_max: bpsMax,
    iops,
    iops_max: iopsMax,
    ...unlimitedApart,
  })
}

/** QMP requires these fields; 0 means that reads and writes have no separate limits. */
const unlimitedApart = { bps_rd: 0, bps_wr: 0, iops_rd: 0, iops_wr: 0 } as const

const secretOf = (node: string) => `key-${node}`

async function addSecret(qmp: Qmp, id: string, key: string): Promise<void> {
  await removeSecret(qmp, id) // the secret may exist from a failed attempt
  await qmp.execute('object-add', { 'qom-type': 'secret', id, data: key })
}

async function removeSecret(qmp: Qmp, id: string): Promise<void> {
  const objects = await qmp.execute('qom-list', { path: '/objects' })
  const there = Array.isArray(objects) && objects.some(object => asObject(object).name === id)
  if (there) await qmp.execute('object-del', { id })
}

function inUse(error: unknown): false {
  if (error instanceof Error && error.message.endsWith('in use')) return false
  throw error
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + answerMs
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error('QEMU did not detach the disk in time')
    await sleep(5)
  }
}

const devicePrefix = 'd-'

/** Derives names from the last, random part of the UUID: QEMU's node names have at most 31 characters. */
function namesOf(volumeId: string): { node: string; device: string } {
  const short = volumeId.replaceAll('-', '').slice(-26)
  return { node: `v-${short}`, device: `${devicePrefix}${short}` }
}

/** Returns the block node of an attached volume. */
export const nodeOf = (volumeId: string): string => namesOf(volumeId).node

async function askUntilThere(guest: GuestChannel, line: string): Promise<void> {
  const deadline = performance.now() + foundMs
  for (;;) {
    try {
      await guest.request(line, answerMs)
      return
    } catch (error) {
      if (!(error instanceof Error) || !error.message.endsWith('absent') || performance.now() > deadline) throw error
    }
    await sleep(10)
  }
}

/**
 * Returns the file of a block node (absolute, or relative to QEMU's directory) and the node's size.
 * @throws StepError `volume_missing`
 */
export async function openedAs(qmp: Qmp, node: string): Promise<{ file: string; sizeBytes: number }> {
  const found = (await nodesOf(qmp)).find(one => one['node-name'] === node)
  const [file, sizeBytes] = [found?.file, Number(asObject(found?.image)['virtual-size'])]
  if (typeof file !== 'string' || !(sizeBytes > 0))
    throw new StepError('volume_missing', 'the volume is not attached to the VM')
  return { file, sizeBytes }
}

async function hasNode(qmp: Qmp, name: string): Promise<boolean> {
  return (await nodesOf(qmp)).some(node => node['node-name'] === name)
}

async function nodesOf(qmp: Qmp) {
  const nodes = await qmp.execute('query-named-block-nodes', { flat: true })
  return Array.isArray(nodes) ? nodes.map(asObject) : []
}

async function hasDevice(qmp: Qmp, id: string): Promise<boolean> {
  const devices = await qmp.execute('qom-list', { path: '/machine/peripheral' })
  return Array.isArray(devices) && devices.some(device => asObject(device).name === id)
}

async function addressesOf(qmp: Qmp): Promise<Record<string, ScsiAddress>> {
  const devices = await qmp.execute('qom-list', { path: '/machine/peripheral' })
  const names = (Array.isArray(devices) ? devices : []).map(device => String(asObject(device).name))
  const found: Record<string, ScsiAddress> = {}
  for (const name of names.filter(one => one.startsWith(devicePrefix))) {
    const get = (property: string) => qmp.execute('qom-get', { path: `/machine/peripheral/${name}`, property })
    const [channel, id, lun] = [await get('channel'), await get('scsi-id'), await get('lun')].map(Number)
    found[String(await get('serial'))] = Value.Parse(ScsiAddress, { channel, id, lun })
  }
  return found
}
