import { firstUid, uidCount } from '../base/vm-users.ts'
import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { chmod, chown, link, lstat, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '../../lib/files.ts'
import { defaultDiskLimits, type DiskLimits } from '../base/disk-limits.ts'
import { bind, unbind, unbindBelow } from './bind.ts'
import { type Cgroups, openCgroups, type VmLimits } from './cgroups.ts'
import { copySparse } from './snapshot-files.ts'

export interface VmUser {
  readonly uid: number
  readonly gid: number
}

/**
 * How VMs of this agent are kept apart on the host: a user and a cgroup each, as far as the agent may give them, and what
 * each may take of its disks.
 */
export interface Isolation {
  /** The VM's own user; undefined: the agent is not root, and VMs run as its own user. */
  userOf(vmId: string): VmUser | undefined
  readonly cgroups: Cgroups | undefined
  /** Whether the agent may make network namespaces. */
  readonly ownNetworks: boolean
  /** The program that starts a VMM without a network but its tap (netless.c); undefined: QEMU is in the host's. */
  readonly netless: string | undefined
  readonly diskLimits: DiskLimits
}

/**
 * @param dataDir the agent's own directory: agents of one machine do not share users
 * @param netless see `Isolation`; left out where this agent may not make network namespaces
 */
export async function openIsolation(
  dataDir: string,
  netless?: string,
  diskLimits = defaultDiskLimits,
): Promise<Isolation> {
  const root = process.getuid?.() === 0
  const ownNetworks = root && holds({ netAdmin: 12, sysAdmin: 21 })
  return {
    userOf: vmUsers(dataDir),
    cgroups: root ? await openCgroups(dataDir) : undefined,
    ownNetworks,
    netless: ownNetworks ? netless : undefined,
    diskLimits,
  }
}

/** For agents that give VMs neither users nor groups, such as a probe. */
export const noIsolation: Isolation = {
  userOf: () => undefined,
  cgroups: undefined,
  ownNetworks: false,
  netless: undefined,
  diskLimits: defaultDiskLimits,
}

/** See `Isolation.userOf`. */
export function vmUsers(dataDir: string): Isolation['userOf'] {
  const mayGive = process.getuid?.() === 0 && holds(capabilities)
  return vmId => (mayGive ? vmUser(dataDir, vmId) : undefined)
}

/** Numbers in linux/capability.h: to give a process away, and to look after it then. */
const capabilities = { chown: 0, setgid: 6, setuid: 7, sysPtrace: 19 } as const

/** Root in a container may lack what makes it root. */
function holds(wanted: Readonly<Record<string, number>>): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  return Object.values(wanted).every(bit => ((BigInt(`0x${effective}`) >> BigInt(bit)) & 1n) === 1n)
}

/** Moves the VM's process into its cgroup, where there are any. */
export async function confine({ cgroups }: Isolation, vmId: string, pid: number, limits: VmLimits): Promise<void> {
  await cgroups?.confine(vmId, pid, limits)
}

/**
 * An empty directory in the VM's own that its VMM may write to: what it makes or opens while it runs is there. The VM's
 * directory can then be passed through, but not listed.
 */
export async function makeRunDir(dir: string, user: VmUser | undefined): Promise<string> {
  const run = join(dir, runDir)
  await unbindBelow(run)
  await rm(run, { recursive: true, force: true })
  await mkdir(run, { mode: 0o700 })
  if (user) {
    await chown(run, user.uid, user.gid)
    await chmod(dir, 0o711)
  }
  return run
}

export const runDir = 'run'

/** Derived, so that there is nothing to store or to hand back: the same VM has the same user whenever it starts. */
function vmUser(dataDir: string, vmId: string): VmUser {
  const uid = firstUid + (createHash('sha256').update(`${dataDir}\0${vmId}`).digest().readUInt32BE(0) % uidCount)
  return { uid, gid: uid }
}

/**
 * The group that opens these devices for a VMM without root's rights: they have to be open to all, or to one group.
 * A device that this machine lacks asks for no group: the VMM names it when it opens it. Undefined: the group cannot be
 * had, and such a VMM has to run as root.
 */
export function deviceGroup(devices: readonly string[], uid: number): number | undefined {
  const groups = new Set<number>()
  for (const device of devices) {
    const found = statSync(device, { throwIfNoEntry: false })
    if (found === undefined) continue
    const { mode, gid } = found
    if ((mode & 0o006) === 0o006) continue
    if ((mode & 0o060) !== 0o060 || gid === 0) return undefined
    groups.add(gid)
  }
  const [first, second] = groups
  return second === undefined ? (first ?? uid) : undefined
}

/**
 * Shows a file to a VMM under another name, without a copy where both are on one file system.
 * `writable`: it becomes the VM's own; otherwise it has to be readable.
 */
export async function showFile(
  from: string,
  to: string,
  user: VmUser | undefined,
  access: 'read' | 'write',
): Promise<void> {
  await unbind(to)
  try {
    await link(from, to)
  } catch (error) {
    if (!hasCode(error, 'EXDEV')) throw error
    // A copy of what is written to would not be the disk any more.
    if (access === 'write') await bind(from, to)
    else await copySparse(from, to)
  }
  if (!user) return
  if (access === 'write') await chown(to, user.uid, user.gid)
  else if (((await lstat(to)).mode & 0o004) === 0) await chmod(to, 0o444)
}
