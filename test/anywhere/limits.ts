/** Machine limits that the kernel enforces: memory, capabilities. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Prepared, Preparing } from './prepare.ts'

const cgroups = '/sys/fs/cgroup'
const prefix = 'mote-anywhere-'
const name = `${prefix}${process.pid}`

/**
 * A control group (version 2) that a room uses in place of the root group. An agent kills unknown processes in the
 * groups of its data directory, and an installation on this machine may use the same path.
 */
export interface OwnGroup extends AsyncDisposable {
  readonly dir: string
  /** Mount point of version 2. */
  readonly mount: string
}

/** Returns undefined if version 2 is not mounted. Disposal also removes groups that programs in the room created. */
export async function ownGroup(): Promise<OwnGroup | undefined> {
  const mount = await mountPoint()
  if (mount === undefined) return undefined
  const dir = join(mount, name)
  await mkdir(dir)
  for (const controller of ['cpu', 'memory', 'pids'])
    await writeFile(join(mount, 'cgroup.subtree_control'), `+${controller}`).catch(() => undefined) // fails if version 1 uses the controller
  return { dir, mount, [Symbol.asyncDispose]: () => removeTree(dir) }
}

async function mountPoint(): Promise<string | undefined> {
  return /^\S+ (\S+) cgroup2 /m.exec(await readFile('/proc/self/mounts', 'utf8'))?.[1]
}

/** Groups of every run, including this one. */
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
 * Creates a control group with this memory limit, which the session enters. In version 2, Mote's VMs leave it for their
 * own groups; in version 1 they count towards it.
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

/** Removes the group with retries: it is busy until its last process has been reaped. */
async function removeSoon(group: string): Promise<void> {
  for (const deadline = Date.now() + removeMs; Date.now() < deadline; await sleep(20)) {
    const done = await rmdir(group).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code !== 'EBUSY',
    )
    if (done) return
  }
}

/** The default capabilities of a Docker container. */
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
 * The kernel refuses user namespaces to a process whose root differs from that of the mount namespace, which has the
 * effect of Docker's filter. The sysctl that forbids them would apply to the whole test machine.
 */
export const dropped = [
  'sh',
  '-c',
  'mountpoint -q /mnt || mount --rbind / /mnt; exec chroot /mnt env -C "$PWD" "$@"',
  'sh',
  'setpriv',
  `--bounding-set=-all,${kept.map(name => `+${name}`).join(',')}`,
]
