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
 * How the VMs of this agent are isolated on the host: one user and one cgroup per VM, if the agent has the privileges,
 * and disk limits.
 */
export interface Isolation {
  /** The VM's own user; undefined if the agent is not root and VMs run as the agent's user. */
  userOf(vmId: string): VmUser | undefined
  readonly cgroups: Cgroups | undefined
  /** True if the agent may create network namespaces. */
  readonly ownNetworks: boolean
  /** Path of the program compiled from netless.c; undefined if QEMU runs in the host's network namespace. */
  readonly netless: string | undefined
  readonly diskLimits: DiskLimits
}

/**
 * Opens the isolation of one agent's VMs.
 * @param dataDir the agent's directory: agents on one host do not share users
 * @param netless see `Isolation`; ignored if the agent may not create network namespaces
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

/** No isolation, for example in a test boot: VMs get neither users nor cgroups. */
export const noIsolation: Isolation = {
  userOf: () => undefined,
  cgroups: undefined,
  ownNetworks: false,
  netless: undefined,
  diskLimits: defaultDiskLimits,
}

/** Returns the function that gives each VM its own user (`Isolation.userOf`). */
export function vmUsers(dataDir: string): Isolation['userOf'] {
  const mayGive = process.getuid?.() === 0 && holds(capabilities)
  return vmId => (mayGive ? vmUser(dataDir, vmId) : undefined)
}

/** Linux capabilities that are needed to start a process as another user and to manage it afterwards, with their bits. */
const capabilities = { chown: 0, setgid: 6, setuid: 7, sysPtrace: 19 } as const

/** True if the process has these effective Linux capabilities: root in a container may lack some. */
function holds(wanted: Readonly<Record<string, number>>): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  return Object.values(wanted).every(bit => ((BigInt(`0x${effective}`) >> BigInt(bit)) & 1n) === 1n)
}

/** Moves the VM's process into its cgroup, if the agent has cgroups. */
export async function confine({ cgroups }: Isolation, vmId: string, pid: number, limits: VmLimits): Promise<void> {
  await cgroups?.confine(vmId, pid, limits)
}

/**
 * Creates an empty subdirectory of the VM's directory for the files that its VMM creates or opens at run time. The
 * VMM's user may then traverse the VM's directory, but not list it.
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

/** Derives the user from the VM's id: the VM has the same user at every start, and nothing is stored or released. */
function vmUser(dataDir: string, vmId: string): VmUser {
  const uid = firstUid + (createHash('sha256').update(`${dataDir}\0${vmId}`).digest().readUInt32BE(0) % uidCount)
  return { uid, gid: uid }
}

/**
 * Returns the group that lets an unprivileged VMM open these devices: each device must be accessible to all users or to
 * that one group. Missing devices are ignored; the VMM reports them when it opens them. Undefined if no such group
 * exists, and the VMM has to run as root.
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
 * Makes a file available to a VMM under another path, as a hard link if both are on one file system. With `write`, the
 * VM's user becomes the owner of the file; with `read`, the file becomes readable.
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
    // Do not copy a writable disk: writes to the copy would be lost.
    if (access === 'write') await bind(from, to)
    else await copySparse(from, to)
  }
  if (!user) return
  if (access === 'write') await chown(to, user.uid, user.gid)
  else if (((await lstat(to)).mode & 0o004) === 0) await chmod(to, 0o444)
}
