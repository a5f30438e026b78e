/** Limits of a test system that the kernel enforces: memory and Linux capabilities. */
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Prepared, Preparing } from './prepare.ts'

const cgroups = '/sys/fs/cgroup'
const prefix = 'mote-anywhere-'
const name = `${prefix}${process.pid}`

/**
 * A control group (version 2) that a test system uses as its root group. Each system has its own, because an agent
 * kills unknown processes in the control groups of its data directory, and an installation on this machine may use a
 * data directory with the same path.
 */
export interface OwnGroup extends AsyncDisposable {
  readonly dir: string
  /** Mount point of cgroup version 2. */
  readonly mount: string
}

/**
 * Creates the control group. Its disposal also removes groups that programs in the test system have created.
 * @returns undefined if cgroup version 2 is not mounted
 */
export async function ownGroup(): Promise<OwnGroup | undefined> {
  const mount = await mountPoint()
  if (mount === undefined) return undefined
  const dir = join(mount, name)
  await mkdir(dir)
  for (const controller of ['cpu', 'memory', 'pids'])
    await writeFile(join(mount, 'cgroup.subtree_control'), `+${controller}`).catch(() => undefined) // fails for a controller of cgroup version 1
  return { dir, mount, [Symbol.asyncDispose]: () => removeTree(dir) }
}

async function mountPoint(): Promise<string | undefined> {
  return /^\S+ (\S+) cgroup2 /m.exec(await readFile('/proc/self/mounts', 'utf8'))?.[1]
}

/** Returns the control groups that runs of this test have created, including this run. */
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
 * Creates a control group with a memory limit, in which the commands of the user run. With cgroup version 2 the limit
 * excludes Mote's VMs, which move to their own groups; with version 1 it includes them.
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

/** Removes a control group, with retries: it is busy until its last process has been reaped. */
async function removeSoon(group: string): Promise<void> {
  for (const deadline = Date.now() + removeMs; Date.now() < deadline; await sleep(20)) {
    const done = await rmdir(group).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code !== 'EBUSY',
    )
    if (done) return
  }
}

/** The Linux capabilities that a Docker container has by default. */
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
 * Command prefix that drops the Linux capabilities that Docker drops, and forbids user namespaces as Docker's seccomp
 * filter does: the kernel refuses them to a process whose root is not that of its mount namespace, hence the chroot. A
 * sysctl would forbid them on the whole host.
 */
export const dropped = [
  'sh',
  '-c',
  'mountpoint -q /mnt || mount --rbind / /mnt; exec chroot /mnt env -C "$PWD" "$@"',
  'sh',
  'setpriv',
  `--bounding-set=-all,${kept.map(name => `+${name}`).join(',')}`,
]
