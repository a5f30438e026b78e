import { join } from 'node:path'

/** What a sandbox is made of. */
export interface SandboxPlan {
  readonly hostname: string
  /** The image's read-only root: an EROFS image in which every file begins at a block. */
  readonly base: string
  /** Directory with the guest's init and its configuration. */
  readonly share: string
  /** Directory below which volumes are mounted later. */
  readonly volumes: string
  /** An empty directory. */
  readonly emptyRoot: string
  /** Name of the network namespace. */
  readonly namespace: string
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  /** Path of the cgroup below the mount points of its hierarchies; undefined if the agent may not create any. */
  readonly cgroup: string | undefined
}

/** Where the guest finds the shared directory. */
const shareAt = '/.mote'
/** Where the guest finds its volumes; links lead there from their mount points. */
export const volumesAt = '/.mote-volumes'

/** Names of the files in `SandboxPlan.share`. */
export const shareFiles = { init: 'init', config: 'config' } as const

/**
 * A guest's root has the rights of a virtual machine's root, which the sandbox confines to itself. Without those that
 * only make sense for a kernel of its own.
 */
const capabilities = [
  ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'DAC_READ_SEARCH', 'FOWNER', 'FSETID', 'IPC_LOCK', 'KILL', 'MKNOD'],
  ...['NET_ADMIN', 'NET_BIND_SERVICE', 'NET_RAW', 'SETFCAP', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_ADMIN'],
  ...['SYS_CHROOT', 'SYS_NICE', 'SYS_PTRACE', 'SYS_RESOURCE', 'SYS_TIME'],
].map(name => `CAP_${name}`)

const cpuPeriodUs = 100_000

/** Returns the sandbox's config.json (OCI runtime specification 1.1, with gVisor's annotations). Pure. */
export function sandboxSpec(plan: SandboxPlan): unknown {
  const { bounding = capabilities } = {}
  return {
    ociVersion: '1.1.0',
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [join(shareAt, shareFiles.init), 'sandbox', join(shareAt, shareFiles.config)],
      env: [],
      cwd: '/',
      capabilities: {
        bounding,
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
      { destination: volumesAt, type: 'bind', source: plan.volumes, options: ['rw', 'rbind', 'rslave'] },
    ],
    annotations: {
      'dev.gvisor.spec.rootfs.source': plan.base,
      'dev.gvisor.spec.rootfs.type': 'erofs',
      // The directory itself is an option of runsc; this one is not used.
      'dev.gvisor.spec.rootfs.overlay': 'dir=/',
      'dev.gvisor.spec.rootfs.options': `size=${plan.diskMib}m`,
    },
    linux: {
      namespaces: [
        { type: 'pid' },
        { type: 'network', path: join('/run/netns', plan.namespace) },
        { type: 'ipc' },
        { type: 'uts' },
        { type: 'mount' },
      ],
      ...(plan.cgroup === undefined ? {} : { cgroupsPath: plan.cgroup }),
      resources: {
        memory: { limit: plan.memoryMib * 2 ** 20 },
        cpu: { quota: (plan.vcpus + 0.5) * cpuPeriodUs, period: cpuPeriodUs },
      },
    },
  }
}
