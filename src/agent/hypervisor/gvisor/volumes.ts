/**
 * Volumes of a sandbox. A sandbox has no block devices: the host mounts the volume's file system below a directory that
 * the sandbox sees, and the guest links to it from the mount point.
 */
import { mkdir, readdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../../lib/exec.ts'
import { encodeWord } from '../../guest/words.ts'
import type { RunningVm } from '../driver.ts'
import type { SandboxVm } from './running-vm.ts'
import { volumesAt } from './spec.ts'
import { volumesDir } from './start.ts'

type Volumes = Required<Pick<RunningVm, 'attachDisk' | 'detachDisk' | 'growDisk' | 'freezeDisk' | 'thawDisk'>>
const mountMs = 5_000

export function volumesOf({ home, guest }: Pick<SandboxVm, 'home' | 'guest'>): Volumes {
  const at = (volumeId: string) => join(volumesDir(home.dir), volumeId)
  const isMounted = (volumeId: string) =>
    run('mountpoint', ['-q', at(volumeId)]).then(
      () => true,
      () => false,
    )
  return {
    async attachDisk({ volumeId, readOnly, mountPoint }, file) {
      if (!(await isMounted(volumeId))) {
        await mkdir(at(volumeId), { recursive: true })
        const options = ['loop', 'nodev', 'nosuid', 'noatime', 'errors=remount-ro', ...(readOnly ? ['ro', 'noload'] : [])]
        await run('mount', ['-t', 'ext4', '-o', options.join(','), file, at(volumeId)])
      }
      await guest.request(`bind ${encodeWord(join(volumesAt, volumeId))} ${encodeWord(mountPoint)}`, mountMs)
    },
    async growDisk({ volumeId }) {
      if (!(await isMounted(volumeId))) return
      const device = (await run('findmnt', ['-n', '-o', 'SOURCE', at(volumeId)])).trim()
      await run('losetup', ['-c', device])
      await run('resize2fs', [device])
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
      await run('umount', [at(volumeId)])
      await rmdir(at(volumeId))
    },
  }
}

/** Unmounts the volumes of an ended sandbox. Idempotent. */
export async function releaseVolumes(dir: string): Promise<void> {
  const names = await readdir(volumesDir(dir)).catch(() => [])
  for (const name of names) {
    const at = join(volumesDir(dir), name)
    await run('umount', [at]).catch(() => undefined) // not mounted
    await rmdir(at)
  }
}
