/**
 * Volumes of a sandbox. A sandbox has no block devices: the host mounts the volume's file system below a directory that
 * the sandbox sees, and the guest links to it from the mount point.
 */
import { readlinkSync } from 'node:fs'
import { mkdir, open, readdir, realpath, rm, rmdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { CommandError, run } from '../../../lib/exec.ts'
import { encodeWord } from '../../../lib/words.ts'
import { inHostMounts } from '../../base/host-mounts.ts'
import type { RunCommand } from '../../launcher/launcher.ts'
import { mountedBelow } from '../bind.ts'
import type { KeptDisk, RawDrive, RunningVm } from '../driver.ts'
import type { SandboxVm } from './running-vm.ts'
import { volumesAt } from './spec.ts'
import { volumesDir } from './start.ts'

type Volumes = Required<Pick<RunningVm, 'attachDisk' | 'detachDisk' | 'growDisk' | 'freezeDisk' | 'thawDisk'>>
const mountMs = 5_000

export function volumesOf({ home, guest }: Pick<SandboxVm, 'home' | 'guest'>): Volumes {
  const nameOf = (volumeId: string) => nameIn(home.dir, volumeId)
  const at = (volumeId: string) => join(volumesDir(home.dir), nameOf(volumeId))
  const isMounted = (volumeId: string) => mountedAt(at(volumeId))
  return {
    async attachDisk({ volumeId, readOnly, mountPoint }, file) {
      if (!(await isMounted(volumeId))) await mountVolume(home.dir, file, at(volumeId), readOnly)
      await guest.request(`bind ${encodeWord(join(volumesAt, nameOf(volumeId)))} ${encodeWord(mountPoint)}`, mountMs)
    },
    async growDisk({ volumeId }) {
      if (!(await isMounted(volumeId))) return
      const device = (await run('findmnt', ['-n', '-f', '-o', 'SOURCE', at(volumeId)])).trim()
      await run('losetup', ['-c', device])
      // Growing a mounted file system needs CAP_SYS_RESOURCE, which root in a container may lack. The file system then
      // grows at the VM's next start.
      await run('resize2fs', [device]).catch((error: unknown) => {
        if (!(error instanceof CommandError && /Permission denied/.test(error.stderr))) throw error
      })
    },
    async freezeDisk({ volumeId }) {
      if (await isMounted(volumeId)) await run('fsfreeze', ['--freeze', at(volumeId)])
    },
    async thawDisk({ volumeId }) {
      await run('fsfreeze', ['--unfreeze', at(volumeId)]).catch(() => undefined) // not frozen
    },
    async detachDisk({ volumeId, mountPoint }) {
      if (!(await isMounted(volumeId))) return
      await guest.request(`unbind ${encodeWord(mountPoint)}`, mountMs)
      await unmountVolume(home.dir, at(volumeId))
    },
  }
}

async function mountVolume(dir: string, file: string, at: string, readOnly: boolean): Promise<void> {
  if (!readOnly) await fillOffline(file)
  await mkdir(at, { recursive: true })
  const options = ['loop', 'nodev', 'nosuid', 'noatime', 'errors=remount-ro', ...(readOnly ? ['ro', 'noload'] : [])]
  await change(dir, 'mount', ['-t', 'ext4', '-o', options.join(','), file, at])
  // If a mount does not propagate to the agent, it does not propagate to the sandbox either, and writes would be lost.
  if (await mountedAt(at)) return
  await change(dir, 'umount', [at])
  throw new Error('the mounts of this host do not propagate to its agent: see mount_namespaces(7)')
}

/**
 * Unmounts a volume. When it returns, all data is in the volume's file. Programs that have created a mount namespace in the
 * meantime, as every sandbox does, have a copy of the mount, which keeps the file system mounted. Removing the mount point's
 * directory unmounts these copies too (mount_namespaces(7)).
 */
async function unmountVolume(dir: string, at: string): Promise<void> {
  await change(dir, 'umount', [at])
  await rmdir(at)
}

/** Mounts or unmounts below a VM's directory, in the mount namespace of the host. */
async function change(
  dir: string,
  program: 'mount' | 'umount',
  args: readonly string[],
  runs: RunCommand = run,
): Promise<void> {
  const command = inHostMounts(dir, { program, args })
  await runs(command.program, command.args)
}

const mountedAt = async (at: string) => (await mountedBelow(at)).includes(await realpath(at).catch(() => at))

/**
 * Prepares the directory for volumes before a sandbox starts. It is a separate mount with shared propagation, so later
 * mounts below it reach the running sandbox (mount_namespaces(7)).
 */
export async function openVolumes(dir: string, runs: RunCommand): Promise<void> {
  await releaseVolumes(dir)
  const volumes = volumesDir(dir)
  await mkdir(volumes, { recursive: true, mode: 0o700 })
  await change(dir, 'mount', ['--bind', '--make-rshared', volumes, volumes], runs)
}

/**
 * Mounts the volumes of a restored guest where the guest had them mounted. A clone is mounted under the name of the
 * volume that it replaces.
 */
export async function mountKept(dir: string, disks: readonly KeptDisk[]): Promise<void> {
  await mkdir(aliasDir(dir), { recursive: true, mode: 0o700 })
  for (const { of, disk, file } of disks) {
    if (of !== disk.volumeId) await symlink(of, join(aliasDir(dir), disk.volumeId))
    await mountVolume(dir, file, join(volumesDir(dir), of), disk.readOnly)
  }
}

/** Mounts each drive that has a file system, in a directory named by the drive's serial. */
export async function mountDrives(dir: string, drives: readonly RawDrive[]): Promise<void> {
  for (const { serial, file, readOnly, fileSystem } of drives)
    if (fileSystem !== undefined) await mountVolume(dir, file, join(volumesDir(dir), serial), readOnly)
}

/** Directory with a link for each clone, from the clone's id to the name under which it is mounted. */
const aliasDir = (dir: string) => join(dir, 'volume-names')

function nameIn(dir: string, volumeId: string): string {
  try {
    return readlinkSync(join(aliasDir(dir), volumeId))
  } catch {
    return volumeId
  }
}

/** Flushes the guest's writes to the volumes' files, so that a copy of a file is complete. */
export async function flushVolumes(dir: string): Promise<void> {
  for (const name of await readdir(volumesDir(dir))) {
    const at = join(volumesDir(dir), name)
    await run('fsfreeze', ['--freeze', at])
    await run('fsfreeze', ['--unfreeze', at])
  }
}

/** Grows a volume's file system to the size of the volume's file, if the file system is smaller. */
async function fillOffline(file: string): Promise<void> {
  const { size } = await stat(file)
  if ((await ext4Bytes(file)) >= size - slackBytes) return
  await run('e2fsck', ['-f', '-p', file]).catch((error: unknown) => {
    // Exit code 1: errors were corrected (e2fsck(8)).
    if (!(error instanceof CommandError && error.exitCode === 1)) throw error
  })
  await run('resize2fs', [file])
}

/** Tolerated difference between a file system and its file, because mke2fs rounds the file system's size down. */
const slackBytes = 1 << 20

/** Returns the size in the file system's superblock (Documentation/filesystems/ext4: block count and block size). */
async function ext4Bytes(file: string): Promise<number> {
  const superblock = Buffer.alloc(1024)
  await using handle = await open(file)
  await handle.read(superblock, 0, superblock.length, 1024)
  return superblock.readUInt32LE(4) * 2 ** (10 + superblock.readUInt32LE(24))
}

/** Unmounts the volumes of a sandbox that has exited. Idempotent. */
export async function releaseVolumes(dir: string): Promise<void> {
  const volumes = volumesDir(dir)
  const names = await readdir(volumes).catch(() => undefined)
  if (names === undefined) return
  for (const name of names) {
    const at = join(volumes, name)
    if (await mountedAt(at)) await unmountVolume(dir, at)
    else await rmdir(at)
  }
  if (await mountedAt(volumes)) await change(dir, 'umount', [volumes])
  await rm(aliasDir(dir), { recursive: true, force: true })
}
