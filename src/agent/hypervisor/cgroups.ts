import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasCode } from '../../lib/files.ts'

export interface VmLimits {
  readonly vcpus: number
  /** Guest memory plus the VMM's own memory. */
  readonly memoryMib: number
  /** CPUs beyond the vCPUs, for the VMM's own threads; default: half a CPU. */
  readonly vmmCpus?: number
  /** Maximum number of processes and threads; default: enough for a VMM. */
  readonly tasks?: number
  /** True if the kernel may kill only the largest process at the memory limit; default: it kills all processes. */
  readonly keepsOthers?: boolean
}

/** The cgroups (version 2) of one agent, one for each VM. */
export interface Cgroups {
  /** The available cgroup controllers. Even without any, a group counts CPU time and can be killed as a whole. */
  readonly controllers: readonly string[]
  /** Creates the VM's group with these limits. @returns the group's directory, in which a process can be started */
  make(vmId: string, limits: VmLimits): Promise<string>
  /** Returns the path of the VM's group relative to the cgroup mount point, the form that container runtimes expect. */
  pathOf(vmId: string): string
  /** Moves the process into the group. Takes 12 to 18 ms, because the kernel synchronizes all cores. */
  enter(vmId: string, pid: number): Promise<void>
  /** Changes the memory limit of the VM's group, and of the cgroup v1 group that runsc uses on hosts with v1. */
  limitMemory(vmId: string, mib: number): Promise<void>
  /** Creates the VM's group with these limits, and moves the process into it. */
  confine(vmId: string, pid: number, limits: VmLimits): Promise<void>
  /** CPU time of the VM's processes since the group was created; undefined if the VM has no group. */
  cpuSeconds(vmId: string): number | undefined
  /** Kills the processes in the group and removes it. Idempotent. */
  release(vmId: string): Promise<void>
  /** Kills the processes in the groups of this agent whose VM is not in `keep`, and removes these groups. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  /** Removes this agent's own cgroup directories if they contain no group of a VM. Idempotent. */
  close(): Promise<void>
}

const parentName = 'mote'
const wanted = ['cpu', 'memory', 'pids'] as const
/** Maximum number of a VMM's threads: vCPUs, devices, and up to 64 disk workers of QEMU. */
const maxTasks = 256

/**
 * Opens the cgroups below `<mount>/mote/<agent>`. Returns undefined if cgroup2 is not mounted or not writable. A VM may
 * use as many CPUs as it has vCPUs, and half a CPU more for the threads of a VMM.
 * @param mount mount point of cgroup2; default: from /proc/self/mounts
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
    const others = legacyMounts().map(legacy => join(legacy, parentName, shortHash(dataDir)))
    return cgroupsIn(agent, controllers, others)
  } catch (error) {
    if (['EROFS', 'EACCES', 'EPERM', 'ENOENT'].some(code => hasCode(error, code))) return undefined
    throw error
  }
}

/**
 * Manages the groups below the agent's directory.
 * @param others the agent's directories in cgroup v1 hierarchies, which runsc creates and does not remove
 */
function cgroupsIn(agent: string, controllers: readonly string[], others: readonly string[]): Cgroups {
  const groupOf = (vmId: string) => join(agent, shortHash(vmId))
  const make = async (vmId: string, limits: VmLimits) => {
    const group = groupOf(vmId)
    await mkdir(group, { recursive: true })
    for (const [file, value] of limitsOf(limits, controllers)) await writeFile(join(group, file), value)
    return group
  }
  const enter = (vmId: string, pid: number) => writeFile(join(groupOf(vmId), 'cgroup.procs'), String(pid))
  return {
    controllers,
    make,
    pathOf: vmId => `/${parentName}/${basename(agent)}/${shortHash(vmId)}`,
    enter,
    async limitMemory(vmId, mib) {
      const files = [
        join(groupOf(vmId), 'memory.max'),
        ...others.map(other => join(other, shortHash(vmId), 'memory.limit_in_bytes')),
      ]
      for (const file of files) if (existsSync(file)) await writeFile(file, String(mib * 2 ** 20))
    },
    async confine(vmId, pid, limits) {
      await make(vmId, limits)
      await enter(vmId, pid)
    },
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
      for (const group of [agent, ...others])
        await rmdir(group).catch((error: unknown) => {
          if (!['ENOENT', 'EBUSY', 'ENOTEMPTY'].some(code => hasCode(error, code))) throw error
        })
    },
  }
}

/** Returns the files to write in a VM's group, and their values, for these controllers (admin-guide/cgroup-v2). */
export function limitsOf(
  { vcpus, memoryMib, vmmCpus = 0.5, tasks = maxTasks, keepsOthers = false }: VmLimits,
  controllers: readonly string[],
): Array<[string, string]> {
  const periodUs = 100_000
  const all: Array<[string, string]> = [
    ['cpu.max', `${(vcpus + vmmCpus) * periodUs} ${periodUs}`],
    ['memory.max', String(memoryMib * 2 ** 20)],
    ['memory.oom.group', keepsOthers ? '0' : '1'],
    ['pids.max', String(tasks)],
  ]
  return all.filter(([file]) => controllers.includes(file.split('.')[0] ?? ''))
}

/** Enables the controllers from the root of the hierarchy down, and returns those that all levels have. */
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
      // Kill repeatedly, because cgroup.kill does not affect processes that enter the group later.
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

function legacyMounts(): string[] {
  const lines = readFileSync('/proc/self/mounts', 'utf8').matchAll(/^\S+ (\S+) cgroup /gm)
  return [...lines].flatMap(([, mount]) => mount ?? [])
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
