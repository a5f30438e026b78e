/** Limits of a machine that the kernel enforces: memory, capabilities. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Prepared, Preparing } from './prepare.ts'

const cgroups = '/sys/fs/cgroup'
const prefix = 'mote-anywhere-'
const name = `${prefix}${process.pid}`

/**
 * A control group (version 2) that a room has in place of the root of all groups: an agent ends what it does not know in
 * the groups of its data directory, which an installation on this machine may have at the same path.
 */
export interface OwnGroup extends AsyncDisposable {
  readonly dir: string
  /** Where version 2 is mounted. */
  readonly mount: string
}

/** undefined: version 2 is not mounted. Its release removes what programs of the room made in it. */
export async function ownGroup(): Promise<OwnGroup | undefined> {
  const mount = await mountPoint()
  if (mount === undefined) return undefined
  const dir = join(mount, name)
  await mkdir(dir)
  for (const controller of ['cpu', 'memory', 'pids'])
    await writeFile(join(mount, 'cgroup.subtree_control'), `+${controller}`).catch(() => undefined) // Version 1 has it.
  return { dir, mount, [Symbol.asyncDispose]: () => removeTree(dir) }
}

async function mountPoint(): Promise<string | undefined> {
  return /^\S+ (\S+) cgroup2 /m.exec(await readFile('/proc/self/mounts', 'utf8'))?.[1]
}

/** Those of every run, this one too. */
export async function groupsOfRuns(): Promise<string[]> {
  const parents = [await mountPoint(), join(cgroups, 'memory')].filter(dir => dir !== undefined)
  const found = parents.map(async parent => {
    const names = await readdir(parent).catch(() => [])
    return names.filter(one => one.startsWith(prefix)).map(one => join(parent, one))
  })
  return (await Promise.all(found)).flat()
}

export async function removeTree(dir: string): Promise<void> {
  for (const entry of await readdir(dir, { withFileTypes: true }))
    if (entry.isDirectory()) await removeTree(join(dir, entry.name))
  await removeSoon(dir)
}

/**
 * A control group with that much memory, which the session enters. In version 2 the VMs of Mote leave it for groups of
 * their own; in version 1 they count.
 */
export async function smallGroup({ room }: Preparing, memoryMib: number): Promise<Prepared> {
  const version1 = join(cgroups, 'memory')
  const isVersion1 = existsSync(join(version1, 'memory.limit_in_bytes'))
  if (!isVersion1 && room.group === undefined) throw new Error('no control groups are mounted')
  const group = isVersion1 ? join(version1, name) : join(room.group?.dir ?? '', 'small')
  await mkdir(group)
  await writeFile(join(group, isVersion1 ? 'memory.limit_in_bytes' : 'memory.max'), String(memoryMib * 2 ** 20))
  const inside = isVersion1 ? group : join(room.group?.mount ?? '', 'small')
  const enter = `echo $$ > ${join(inside, 'cgroup.procs')}; exec "$@"`
  return { through: ['sh', '-c', enter, 'sh'], release: () => (isVersion1 ? removeSoon(group) : Promise.resolve()) }
}

const removeMs = 10_000

/** A group is busy until its last process has been reaped. */
async function removeSoon(group: string): Promise<void> {
  for (const deadline = Date.now() + removeMs; Date.now() < deadline; await sleep(20)) {
    const done = await rmdir(group).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code !== 'EBUSY',
    )
    if (done) return
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
