/** Limits of a machine that the kernel enforces: memory, capabilities. */
import { existsSync } from 'node:fs'
import { mkdir, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Prepared, Preparing } from './prepare.ts'

const cgroups = '/sys/fs/cgroup'

/**
 * A control group with that much memory, which the session enters. In version 2 the VMs of Mote leave it for groups of
 * their own; in version 1 they count.
 */
export async function smallGroup(_at: Preparing, memoryMib: number): Promise<Prepared> {
  const name = `mote-anywhere-${process.pid}`
  const version1 = join(cgroups, 'memory')
  const isVersion1 = existsSync(join(version1, 'memory.limit_in_bytes'))
  const group = join(isVersion1 ? version1 : cgroups, name)
  if (!isVersion1) await writeFile(join(cgroups, 'cgroup.subtree_control'), '+memory')
  await mkdir(group)
  await writeFile(join(group, isVersion1 ? 'memory.limit_in_bytes' : 'memory.max'), String(memoryMib * 2 ** 20))
  const enter = `echo $$ > ${join(group, 'cgroup.procs')}; exec "$@"`
  return { through: ['sh', '-c', enter, 'sh'], release: () => removeSoon(group) }
}

const removeMs = 10_000

/** A group is busy until its last process has been reaped. */
export async function removeSoon(group: string): Promise<void> {
  for (const deadline = Date.now() + removeMs; Date.now() < deadline; ) {
    const done = await rmdir(group).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code !== 'EBUSY',
    )
    if (done) return
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** What Docker leaves to a container by default. */
const kept = [
  'chown',
  'dac_override',
  'fowner',
  'fsetid',
  'kill',
  'setgid',
  'setuid',
  'setpcap',
  'net_bind_service',
  'net_raw',
  'sys_chroot',
  'mknod',
  'audit_write',
  'setfcap',
]

/**
 * In a root that is not that of the mount namespace the kernel refuses user namespaces, as Docker's filter does; the
 * sysctl that forbids them would hold for the whole test machine.
 */
export const dropped = [
  'sh',
  '-c',
  'mountpoint -q /mnt || mount --rbind / /mnt; exec chroot /mnt env -C "$PWD" "$@"',
  'sh',
  'setpriv',
  `--bounding-set=-all,${kept.map(name => `+${name}`).join(',')}`,
]
