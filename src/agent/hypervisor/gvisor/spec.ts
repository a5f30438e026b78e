import { join } from 'node:path'
import { namespaceDir } from '../../net/devices.ts'
import type { RawDrive } from '../driver.ts'

/** The values from which `sandboxSpec` makes the sandbox's config.json. */
export interface SandboxPlan {
  readonly hostname: string
  /** The image's read-only root: an EROFS image in which the content of every file begins at a block boundary. */
  readonly base: string
  /** Directory with the guest's init and its configuration. */
  readonly share: string
  /** Directory below which the host mounts the VM's volumes while the sandbox runs. */
  readonly volumes: string
  /** Files that the guest sees below `drivesAt`, named by their serials. */
  readonly drives: readonly RawDrive[]
  /** An empty directory, because the specification requires a root directory; the real root is `base`. */
  readonly emptyRoot: string
  /** Name of the sandbox's network namespace. */
  readonly namespace: string
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  /** Path of the cgroup below the mount points of the cgroup hierarchies; undefined if the agent may not create any. */
  readonly cgroup: string | undefined
}

/** Path of `SandboxPlan.share` in the guest. */
const shareAt = '/.mote'
/** Path of `SandboxPlan.volumes` in the guest. The mount point of each volume is a link to a directory below it. */
export const volumesAt = '/.mote-volumes'

/** Path of the additional drives in the guest. They are files, because a sandbox has no block devices. */
const drivesAt = '/.mote-drives'

/** Names of the files in `SandboxPlan.share`. */
export const shareFiles = { init: 'init', config: 'config' } as const

/**
 * Linux capabilities of root in the guest: those of root in a virtual machine, except for those that need a real kernel.
 * They apply within the sandbox only.
 */
const capabilities = [
  ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'DAC_READ_SEARCH', 'FOWNER', 'FSETID', 'IPC_LOCK', 'KILL', 'MKNOD'],
  ...['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW', 'SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_ADMIN'],
  ...['SYS_CHROOT', 'SYS_NICE', 'SYS_PTRACE', 'SYS_RESOURCE', 'SYS_TIME'],
].map(name => `CAP_${name}`)

/**
 * Period of the CPU quota. It is short because a sandbox runs its threads on all cores until its quota is used up: with
 * a quota of one CPU on two cores, the neighbors then wait for 5 ms instead of 50 ms.
 */
const cpuPeriodUs = 10_000

/**
 * Maximum number of a sandbox's processes and threads on the host; each process of the guest takes two of them. A
 * sandbox that reaches the limit exits (docs/decisions/0126-tasks-of-sandboxes.md).
 */
export const sandboxTasks = 4096

/** Returns the sandbox's config.json (OCI runtime specification 1.1, with gVisor's annotations). Pure. */
export function sandboxSpec(plan: SandboxPlan): unknown {
  return {
    ociVersion: '1.1.0',
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [join(shareAt, shareFiles.init), 'sandbox', join(shareAt, shareFiles.config)],
      env: [],
      cwd: '/',
      capabilities: {
        bounding: capabilities,
        effective: capabilities,
        inheritable: capabilities,
        permitted: capabilities,
        ambient: capabilities,
      },
      noNewPrivileges: false,
    },
    root: { path: plan.emptyRoot, readonly: false },
    hostname: plan.hostname,
    mounts: [
      { destination: shareAt, type: 'bind', source: plan.share, options: ['ro', 'rbind'] },
      // `dcache=0` disables the cache of directory entries, which would keep a detached volume open.
      { destination: volumesAt, type: 'bind', source: plan.volumes, options: ['rw', 'rbind', 'rslave', 'dcache=0'] },
      { destination: '/dev/shm', type: 'tmpfs', source: 'shm', options: ['nosuid', 'nodev', 'mode=1777'] },
      ...plan.drives.map(({ serial, file, readOnly }) => ({
        destination: join(drivesAt, serial),
        type: 'bind',
        source: file,
        options: [readOnly ? 'ro' : 'rw', 'bind'],
      })),
    ],
    annotations: {
      'dev.gvisor.spec.rootfs.source': plan.base,
      'dev.gvisor.spec.rootfs.type': 'erofs',
      // Enables the overlay over the root. The option `--overlay2` of runsc sets its directory; the directory named
      // here is not used.
      'dev.gvisor.spec.rootfs.overlay': 'dir=/',
      'dev.gvisor.spec.rootfs.options': `size=${plan.diskMib}m`,
    },
    linux: {
      namespaces: [
        { type: 'pid' },
        { type: 'network', path: join(namespaceDir, plan.namespace) },
        { type: 'ipc' },
        { type: 'uts' },
        { type: 'mount' },
      ],
      ...(plan.cgroup === undefined ? {} : { cgroupsPath: plan.cgroup }),
      resources: {
        memory: { limit: plan.memoryMib * 2 ** 20 },
        // The quota includes the CPU time of the sandbox's kernel, as in a virtual machine
        // (docs/decisions/0125-cpu-of-sandboxes.md).
        cpu: { quota: plan.vcpus * cpuPeriodUs, period: cpuPeriodUs },
        pids: { limit: sandboxTasks },
      },
    },
  }
}
