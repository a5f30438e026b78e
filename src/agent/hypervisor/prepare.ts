import { access, copyFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { abortable } from '../../lib/abortable.ts'
import { configBytes, configDisk } from '../guest/config-disk.ts'
import type { GuestKernel } from '../guest/kernel.ts'
import { programsOf } from '../guest/programs.ts'
import type { ImageUser } from '../image/access.ts'
import type { RunConfig } from '../image/config.ts'
import { pinnedImage } from '../image/reference.ts'
import { ImageError } from '../base/image-error.ts'
import type { BaseForm } from '../image/base.ts'
import type { ImageStore } from '../image/store.ts'
import { networkPlan } from '../net/addresses.ts'
import type { DevicePlace, Network, Nic } from '../net/net.ts'
import { StepError } from '../base/step-error.ts'
import type { Prepared, SnapshotSource, VmHome } from './driver.ts'
import type { PrepareContext } from '../base/prepare-context.ts'
import { machineId } from './identity.ts'
import { configFile, refuseOther } from './snapshot-files.ts'

export interface PrepareDeps {
  readonly images: ImageStore
  readonly network: Network
  /** Provides the guest kernel, built on first use and shared by all boots; undefined if guests have none (gVisor). */
  readonly kernel: (() => Promise<GuestKernel>) | undefined
  /** Form of the image's base (its read-only file system); default: `disk`. */
  readonly form?: BaseForm
  /** Kind of the ports that connect guest and agent; default: virtio-serial. */
  readonly ports?: 'vsock'
  /** How a VM gets its tap (`Network.connect`). Default: the network creates it; firewall rules apply immediately. */
  readonly device?: DevicePlace
}

/** Provides image, network and config disk of a new VM. */
export async function prepareVm(deps: PrepareDeps, home: VmHome, context: PrepareContext): Promise<Prepared> {
  // A newer desired state aborts only this wait. The builds continue, because other VMs may need the base and the
  // kernel.
  const made = Promise.all([deps.images.base(home.spec.image, context, imageUser(home), deps.form), deps.kernel?.()])
  const [base, { devices } = { devices: 'acpi' }] = await abortable(made, context.signal)
  const nic = await deps.network.connect(home.vmId, home.spec.port, networkPlan(home.spec), deps.device)
  await writePrivate(join(home.dir, configFile), guestConfig(home, base.config, nic, deps.ports))
  // The disk has a fixed size, because a guest that starts from a template already knows the size.
  await truncate(join(home.dir, configFile), configBytes)
  return {
    imageDigest: base.config.digest,
    endpoint: nic.endpoint,
    notes: { ...notesOf(base.file, nic), devices, baseType: base.config.baseType },
  }
}

const imageUser = ({ vmId, spec: { projectId, builtImage, signIn } }: VmHome): ImageUser => ({
  projectId,
  builtImage,
  signsInFor: signIn ? vmId : undefined,
})

/**
 * Provides everything to restore a VM from a snapshot: the image's base (its read-only file system), which the guest
 * has mounted, a network, and the snapshot's config disk, which the guest has already read.
 * @throws StepError `snapshot_mismatch`, or `snapshot_base_missing` if the host no longer has the image's base.
 */
export async function prepareFrom(
  deps: PrepareDeps,
  home: VmHome,
  { dir, made }: SnapshotSource,
  here: string,
  context: PrepareContext,
): Promise<Prepared> {
  refuseOther(made, here)
  // A VM without its own registry credential may pull the image again with the operator's, because it had the image
  // when the snapshot was taken.
  const user = home.spec.signIn ? imageUser(home) : undefined
  const base = await baseOfSnapshot(deps, { spec: home.spec, user }, made, context)
  const copyConfig = async () => {
    const config = join(home.dir, configFile)
    await rm(config, { force: true })
    await copyFile(join(dir, configFile), config)
  }
  const [nic] = await Promise.all([
    deps.network.connect(home.vmId, home.spec.port, networkPlan(home.spec), deps.device),
    copyConfig(),
  ])
  return {
    imageDigest: made.imageDigest,
    endpoint: nic.endpoint,
    notes: { ...notesOf(base, nic), devices: made.notes.devices ?? 'acpi' },
  }
}

/**
 * Returns the file of the image's base that the snapshot's guest has mounted. For a snapshot from another host, this is
 * the host's own base of the same image, which is byte-identical.
 * @throws StepError `snapshot_base_missing`
 */
export async function baseOfSnapshot(
  { images, form }: Pick<PrepareDeps, 'images' | 'form'>,
  { spec, user }: { readonly spec: Pick<VmHome['spec'], 'image'>; readonly user?: ImageUser | undefined },
  { notes, imageDigest }: Pick<SnapshotSource['made'], 'notes' | 'imageDigest'>,
  context: PrepareContext,
): Promise<string> {
  const known = String(notes.base)
  const isThere = await access(known).then(
    () => true,
    () => false,
  )
  if (isThere) return known
  const base = await images.base(pinnedImage(spec.image, imageDigest), context, user, form).catch((cause: unknown) => {
    throw new StepError('snapshot_base_missing', 'the image that the snapshot is based on is not on this host', {
      cause,
    })
  })
  if (base.config.digest === imageDigest) return base.file
  throw new StepError(
    'snapshot_base_missing',
    `the snapshot is based on ${imageDigest}, but ${spec.image} has another digest`,
  )
}

function guestConfig({ vmId, spec }: VmHome, image: RunConfig, nic: Nic, ports: PrepareDeps['ports']): Buffer {
  const argv = spec.command ?? [...image.argv.entrypoint, ...(spec.arguments ?? image.argv.cmd)]
  if (argv.length === 0) throw new ImageError('image_unusable', 'the image has no entrypoint and no command was given')
  const { cwd, uid, gid, groups, stopSignal, baseType } = image
  const env = { ...image.env, PORT: String(spec.port), ...spec.env }
  const { files = [] } = spec
  return configDisk({
    argv,
    env,
    files,
    ...programsOf(files, { argv: image.argv, env }),
    cwd,
    uid,
    gid,
    groups,
    stopSignal,
    baseType,
    hostname: spec.hostname,
    network: nic.guest,
    machineId: machineId(vmId),
    wait: spec.disks.length > 0,
    ...(ports ? { ports } : {}),
  })
}

/** Writes a file with mode 0600 from the start, because the environment may contain secrets. */
async function writePrivate(path: string, data: Buffer): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, data, { mode: 0o600, flag: 'wx' })
}

function notesOf(base: string, { netdev, mac, tap, guest }: Nic): Prepared['notes'] {
  return { base, netdev, mac, tap, guest: JSON.stringify(guest) }
}

export interface VmNotes {
  readonly base: string
  readonly netdev: string
  readonly mac: string
  readonly tap: string | null
  /** The guest's network settings, as JSON. */
  readonly guest: string
  /** How the guest's kernel finds its devices (ACPI or the command line). */
  readonly devices: GuestKernel['devices']
  /** Type of the base's file system; empty if the VM was restored. */
  readonly baseType: string
}

export function readNotes({ notes }: Prepared): VmNotes {
  const text = (key: string) => String(notes[key] ?? '')
  const tap = notes.tap ? text('tap') : null
  const devices = notes.devices === 'command-line' ? 'command-line' : 'acpi'
  return {
    base: text('base'),
    netdev: text('netdev'),
    mac: text('mac'),
    tap,
    guest: text('guest'),
    devices,
    baseType: text('baseType'),
  }
}
