/** Commands for volumes and their snapshots. */
import type { Command } from 'commander'
import type { VolumeSnapshot, VolumeWithAttachments } from '../../client/index.ts'
import { confirmByName } from '../ask.ts'
import { appFlag, appOf } from '../folder.ts'
import { untilMoved } from '../move-wait.ts'
import { age, bytes, facts, listing, status } from '../output.ts'
import { type Call, noun, said, text, type Verb, wholeNumber } from '../verb.ts'
import { waitShown } from '../wait-shown.ts'

export const storageCommands = (): Command[] => [
  noun('volumes', 'Disks that outlive VMs', [
    ...[list, create, usage, attach, detach, snapshot, snapshots, restore, clone, move, removeSnapshot, remove],
  ]),
]

/** Finds a volume by name or id. @throws Error if there is none */
async function volumeOf({ client }: Call, name: string): Promise<VolumeWithAttachments> {
  const found = (await client.listVolumes()).find(volume => volume.name === name || volume.id === name)
  if (found) return found
  throw new Error(`No volume named ${name}. List volumes: mote volumes list`)
}

const appId = async (call: Call) => (await call.client.getApp({ app_name: await appOf(call) })).id

const list: Verb = {
  usage: 'list',
  says: 'List volumes with their attachments',
  aliases: ['ls'],
  async run({ client }) {
    const all = await client.listVolumes()
    const rows = all.map(volume => [
      ...[volume.name, `${volume.size_mib} MiB`, volume.pool_name],
      volume.attachments
        .map(at => `${at.app_name}:${at.mount_point}${at.access_mode === 1 ? ' (read-only)' : ''}`)
        .join(', '),
      age(volume.created_at),
    ])
    return said(
      all,
      listing(['NAME', 'SIZE', 'POOL', 'ATTACHED', 'AGE'], rows, 'No volumes: mote volumes create data --size 1024'),
    )
  },
}

const create: Verb = {
  usage: 'create <name>',
  says: 'Create an empty volume',
  options: [
    ['--size <mib>', 'size of the volume in MiB (default 1024)'],
    ['--pool <name>', 'storage pool; by default chosen by the installation'],
  ],
  example: 'mote volumes create data --size 10240',
  async run({ client, args: [name = ''], flags }) {
    const body = { name, size_mib: wholeNumber(flags, 'size') ?? 1024, pool_name: text(flags, 'pool') }
    const volume = await client.createVolume({ body })
    return said(volume, `Created the volume ${name}. Attach it: mote volumes attach ${name} --app <app>`)
  },
}

const usage: Verb = {
  usage: 'usage <volume>',
  says: 'Show the used space of a volume',
  async run(call) {
    const { id, name } = await volumeOf(call, call.args[0] ?? '')
    const used = await call.client.getVolumeUsage({ volume_id: id })
    const text = facts({
      volume: name,
      size: bytes(used.size_bytes),
      used: bytes(used.used_bytes),
      snapshots: bytes(used.snapshot_bytes),
      measured: used.measured_at ?? 'not yet',
    })
    return said(used, text)
  },
}

const attach: Verb = {
  usage: 'attach <volume>',
  says: 'Attach a volume to an app; applies from the next deployment',
  options: [
    appFlag,
    ['--at <path>', 'mount point (default /data)'],
    ['--read-only', 'attach the volume read-only, so that several VMs can use it'],
  ],
  example: 'mote volumes attach data --app web --at /var/lib/web',
  async run(call) {
    const volume = await volumeOf(call, call.args[0] ?? '')
    const body = {
      volume_id: volume.id,
      mount_point: text(call.flags, 'at'),
      access_mode: call.flags.readOnly === true ? 1 : undefined,
    }
    const attached = await call.client.attachVolume({ app_id: await appId(call), body })
    return said(
      attached,
      `${volume.name} will be mounted at ${attached.mount_point} from the next deployment: mote deploy`,
    )
  },
}

/**
 * Formats the result of a detachment: done, or the reason why the volume is still attached, such as a VM that has to
 * unmount it first.
 */
export const detachText = (
  name: string,
  { status, message }: { readonly status: string; readonly message: string | null },
) => (status === 'detached' ? `Detached ${name} from the app.` : `Detaching ${name}. ${message ?? ''}`.trim())

const detach: Verb = {
  usage: 'detach <volume>',
  says: 'Detach a volume from an app',
  options: [appFlag],
  async run(call) {
    const volume = await volumeOf(call, call.args[0] ?? '')
    const answer = await call.client.detachVolume({ app_id: await appId(call), volume_id: volume.id })
    return said(answer, detachText(volume.name, answer))
  },
}

/**
 * Finds a snapshot.
 * @returns undefined while the snapshot is being taken
 * @throws Error if it has failed or was deleted
 */
export function readySnapshot<T extends Pick<VolumeSnapshot, 'id' | 'name' | 'status'>>(
  all: readonly T[],
  { id, name }: Pick<VolumeSnapshot, 'id' | 'name'>,
): T | undefined {
  const now = all.find(one => one.id === id)
  if (!now) throw new Error(`The snapshot ${name} was deleted.`)
  if (now.status === 'failed') throw new Error(`The snapshot ${name} has failed. See: mote notifications`)
  return now.status === 'creating' ? undefined : now
}

const snapshot: Verb = {
  usage: 'snapshot <volume> <name>',
  says: 'Take a snapshot of a volume, and wait until it is ready',
  options: [['--no-wait', 'return without waiting for the result']],
  async run(call) {
    const [volume = '', name = ''] = call.args
    const { id } = await volumeOf(call, volume)
    const made = await call.client.createVolumeSnapshot({ volume_id: id, body: { name } })
    if (call.flags.wait === false) return said(made, `Snapshot ${name} of ${volume} is being made.`)
    const ready = await waitShown(call, { what: `Taking the snapshot ${name}` }, async () =>
      readySnapshot(await call.client.listVolumeSnapshots({ volume_id: id }), made),
    )
    return said(ready, `Snapshot ${name} of ${volume} is ready.`)
  },
}

const snapshots: Verb = {
  usage: 'snapshots <volume>',
  says: 'List snapshots of a volume, newest first',
  async run(call) {
    const { id } = await volumeOf(call, call.args[0] ?? '')
    const all = await call.client.listVolumeSnapshots({ volume_id: id })
    const rows = all.map(one => [one.name, status(one.status ?? 'ready'), age(one.created_at), one.id])
    return said(all, listing(['NAME', 'STATUS', 'AGE', 'ID'], rows, 'No snapshots.'))
  },
}

const restore: Verb = {
  usage: 'restore <volume> <snapshot>',
  says: 'Roll a detached volume back to a snapshot',
  async run(call) {
    const [volume = '', snapshot_name = ''] = call.args
    const { id } = await volumeOf(call, volume)
    const answer = await call.client.restoreVolume({ volume_id: id, body: { snapshot_name } })
    return said(answer, `Rolling ${volume} back to ${snapshot_name}.`)
  },
}

const move: Verb = {
  usage: 'move <volume> [host]',
  says: 'Move a detached volume with its snapshots to another host; without a host, show the progress',
  options: [
    ['--cancel', 'cancel the move; the volume stays on its host'],
    ['--no-wait', 'return without waiting for the result'],
  ],
  example: 'mote volumes move data host-2\nmote volumes move data',
  async run(call) {
    const [name = '', target_host] = call.args
    const { id: volume_id } = await volumeOf(call, name)
    if (call.flags.cancel) return said(await call.client.cancelVolumeMove({ volume_id }), 'The move is being canceled.')
    if (target_host) {
      const answer = await call.client.moveVolume({ volume_id, body: { target_host } })
      if (call.flags.wait === false) return said(answer, `${name} moves to ${target_host}.`)
      const moved = await untilMoved(call, `Moving ${name} to ${target_host}`, `The volume ${name}`, () =>
        call.client.getVolumeMove({ volume_id }, { signal: call.signal }),
      )
      return said(moved, `${name} is on ${target_host}.`)
    }
    const answer = await call.client.getVolumeMove({ volume_id })
    return said(
      answer,
      facts(Object.fromEntries(Object.entries(Object(answer)).map(([key, value]) => [key, String(value ?? '')]))),
    )
  },
}

const clone: Verb = {
  usage: 'clone <volume> <snapshot> <new-name>',
  says: 'Create a volume from a snapshot of another volume',
  async run(call) {
    const [volume = '', snapshot_name = '', name = ''] = call.args
    const { id } = await volumeOf(call, volume)
    const answer = await call.client.cloneVolume({ volume_id: id, body: { name, snapshot_name } })
    return said(answer, `Creating the volume ${name} from ${snapshot_name} of ${volume}.`)
  },
}

const removeSnapshot: Verb = {
  usage: 'delete-snapshot <id>',
  says: 'Delete a snapshot of a volume',
  async run({ client, args: [id = ''] }) {
    return said(await client.deleteVolumeSnapshot({ snapshot_id: id }), 'The snapshot is being deleted.')
  },
}

const remove: Verb = {
  usage: 'delete <volume>',
  says: 'Delete a volume with its data and snapshots',
  options: [['-y, --yes', 'skip the confirmation']],
  async run(call) {
    const volume = await volumeOf(call, call.args[0] ?? '')
    await confirmByName('the volume', volume.name, call.flags.yes === true)
    const answer = await call.client.deleteVolume({ volume_id: volume.id })
    return said(answer, `Volume ${volume.name} is being deleted.`)
  },
}
