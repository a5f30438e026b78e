import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasCode } from '../../lib/files.ts'

export interface VmLimits {
  readonly vcpus: number
  /** Guest memory and what the VMM needs besides. */
  readonly memoryMib: number
}

/** One cgroup (version 2) for each VM of one agent. */
export interface Cgroups {
  /** The controllers that limit here; without any, a group still counts cpu time and ends as a whole. */
  readonly controllers: readonly string[]
  /** Makes the VM's group with these limits. @returns its directory, for a process that starts in it */
  make(vmId: string, limits: VmLimits): Promise<string>
  /** Moves the process into it, which waits for the kernel on all cores: 12 to 18 ms. */
  enter(vmId: string, pid: number): Promise<void>
  /** Makes it and moves the process into it. */
  confine(vmId: string, pid: number, limits: VmLimits): Promise<void>
  /** A group without limits for processes that wait to be a VM's; it is kept by nobody, so `reclaim` ends what is in it. */
  makeWaiting(): Promise<string>
  releaseWaiting(): Promise<void>
  /** What the VM's processes have used since the group was made; undefined: there is no group. */
  cpuSeconds(vmId: string): number | undefined
  /** Ends what is left in the group and removes it. Idempotent. */
  release(vmId: string): Promise<void>
  /** Does so for every group of this agent that belongs to none of `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  /** The agent's own level goes when no VM is left in it. Idempotent. */
  close(): Promise<void>
}

const parentName = 'mote'
const wanted = ['cpu', 'memory', 'pids'] as const
/** A VMM's threads: vCPUs, devices, QEMU's pool of up to 64 for disks. */
const maxTasks = 256

/**
 * The cgroups below `<mount>/mote/<agent>`; undefined where version 2 is not mounted or not ours to write. What a VM may
 * use of cpu is its vCPUs and half a cpu for the VMM's own threads.
 * @param mount where cgroup2 is mounted; undefined: found in /proc/self/mounts
 */
export async function openCgroups(
  dataDir: string,
  mount: string | undefined = mountPoint(),
): Promise<Cgroups | undefined> {
  if (mount === undefined) return undefined
  const agent = join(mount, parentName, shortHash(dataDir))
  try {
    await mkdir(agent, { recursive: true })
    const controllers = await delegate([mount, join(mount, parentName), agent])
    return cgroupsIn(agent, controllers)
  } catch (error) {
    if (['EROFS', 'EACCES', 'EPERM', 'ENOENT'].some(code => hasCode(error, code))) return undefined
    throw error
  }
}

function cgroupsIn(agent: string, controllers: readonly string[]): Cgroups {
  const groupOf = (vmId: string) => join(agent, shortHash(vmId))
  const make = async (vmId: string, limits: VmLimits) => {
    const group = groupOf(vmId)
    await mkdir(group, { recursive: true })
    for (const [file, value] of limitsOf(limits, controllers)) await writeFile(join(group, file), value)
    return group
  }
  const enter = (vmId: string, pid: number) => writeFile(join(groupOf(vmId), 'cgroup.procs'), String(pid))
  const waiting = join(agent, 'waiting')
  return {
    controllers,
    make,
    enter,
    async confine(vmId, pid, limits) {
      await make(vmId, limits)
      await enter(vmId, pid)
    },
    async makeWaiting() {
      await mkdir(waiting, { recursive: true })
      return waiting
    },
    releaseWaiting: () => removeGroup(waiting),
    cpuSeconds(vmId) {
      try {
        const text = readFileSync(join(groupOf(vmId), 'cpu.stat'), 'utf8')
        return Number(/^usage_usec (\d+)$/m.exec(text)?.[1] ?? 0) / 1e6
      } catch {
        return undefined
      }
    },
    release: vmId => removeGroup(groupOf(vmId)),
    async reclaim(keep) {
      const kept = new Set([...keep].map(shortHash))
      for (const entry of await readdir(agent, { withFileTypes: true })) {
        if (entry.isDirectory() && !kept.has(entry.name)) await removeGroup(join(agent, entry.name))
      }
    },
    async close() {
      await rmdir(agent).catch((error: unknown) => {
        if (!['ENOENT', 'EBUSY', 'ENOTEMPTY'].some(code => hasCode(error, code))) throw error
      })
    },
  }
}

/** Files and values of a VM's group, as far as the controllers are there (Linux, admin-guide/cgroup-v2). */
export function limitsOf({ vcpus, memoryMib }: VmLimits, controllers: readonly string[]): Array<[string, string]> {
  const periodUs = 100_000
  const all: Array<[string, string]> = [
    ['cpu.max', `${(vcpus + 0.5) * periodUs} ${periodUs}`],
    ['memory.max', String(memoryMib * 2 ** 20)],
    ['memory.oom.group', '1'],
    ['pids.max', String(maxTasks)],
  ]
  return all.filter(([file]) => controllers.includes(file.split('.')[0] ?? ''))
}

/** Turns the controllers on from the root down; answers those that all levels have. */
async function delegate(levels: readonly string[]): Promise<string[]> {
  let usable: readonly string[] = wanted
  for (const level of levels) {
    const here = (await readFile(join(level, 'cgroup.controllers'), 'utf8')).split(/\s+/)
    const enabled: string[] = []
    for (const controller of usable.filter(one => here.includes(one))) {
      const done = await writeFile(join(level, 'cgroup.subtree_control'), `+${controller}`).then(
        () => true,
        () => false,
      )
      if (done) enabled.push(controller)
    }
    usable = enabled
  }
  return [...usable]
}

async function removeGroup(group: string): Promise<void> {
  try {
    for (;;) {
      // Each time: it ends who is there, not who comes.
      await writeFile(join(group, 'cgroup.kill'), '1')
      const gone = await rmdir(group).then(
        () => true,
        (error: unknown) => (hasCode(error, 'EBUSY') ? false : Promise.reject(error)),
      )
      if (gone) return
      await sleep(5)
    }
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
}

function mountPoint(): string | undefined {
  return /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1]
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
