/** Messages about VMs: desired state, observed state, and commands in the guest. */
import { type Static, Type } from 'typebox'
import { FirewallObserved, FirewallSpec } from '../network.ts'

export const HypervisorName = Type.Enum(['firecracker', 'cloud-hypervisor', 'gvisor', 'qemu', 'fake'])
export type HypervisorName = Static<typeof HypervisorName>

/**
 * A volume (or a database's data disk) to attach to the VM. The generation fences the disk: the host refuses to attach
 * it with a lower generation than before.
 */
export const DiskSpec = Type.Object({
  volumeId: Type.String(),
  pool: Type.String(),
  sizeMib: Type.Integer({ minimum: 1 }),
  generation: Type.Integer({ minimum: 0 }),
  mountPoint: Type.String(),
  readOnly: Type.Boolean(),
  /** Key of the volume in an encrypted pool, base64. The host keeps it in memory only. */
  key: Type.Optional(Type.String()),
})
export type DiskSpec = Static<typeof DiskSpec>

export const VmSpec = Type.Object({
  projectId: Type.String(),
  appId: Type.String(),
  deploymentId: Type.String(),
  /** The guest's host name. */
  hostname: Type.String(),
  hypervisor: HypervisorName,
  /**
   * Reference of the image: `registry/name:tag`, `registry/name@sha256:...`, or `oci:name:tag` for an OCI layout in the
   * host's image directory.
   */
  image: Type.String(),
  /**
   * Whether the control plane built the image for an app of this project. Then the host may sign in to its registry to
   * pull it.
   */
  builtImage: Type.Optional(Type.Boolean()),
  /**
   * Whether the project has a credential for the image's registry, which the host requests when it pulls
   * (`registryLogin`).
   */
  signIn: Type.Optional(Type.Boolean()),
  vcpus: Type.Integer({ minimum: 1 }),
  memoryMib: Type.Integer({ minimum: 64 }),
  /** Size of the writable scratch disk over the read-only image. */
  diskMib: Type.Integer({ minimum: 16 }),
  /** Environment variables in addition to those of the image, which they override. */
  env: Type.Record(Type.String(), Type.String()),
  /** Files that are written at each boot, before the program starts. Hosts of earlier releases ignore them. */
  files: Type.Optional(
    Type.Array(
      Type.Object({
        path: Type.String(),
        mode: Type.Integer({ minimum: 0, maximum: 0o777 }),
        /** Content of the file, in base64. */
        data: Type.String(),
      }),
      { maxItems: 64 },
    ),
  ),
  /** Replaces the image's entrypoint and command. */
  command: Type.Optional(Type.Array(Type.String())),
  /** Replaces the image's command but not its entrypoint. Ignored with `command`. */
  arguments: Type.Optional(Type.Array(Type.String())),
  /** TCP port that the app listens on inside the guest. */
  port: Type.Integer({ minimum: 1, maximum: 65535 }),
  /** HTTP path of the health check on `port`, healthy with status 2xx or 3xx; null: the check is a TCP connect. */
  healthCheckPath: Type.Union([Type.String(), Type.Null()]),
  /** Whether nothing listens on `port`. Such a VM is healthy once the workload has run for two seconds. */
  unprobed: Type.Optional(Type.Boolean()),
  ipv6Address: Type.String(),
  /** How often the workload is restarted after an exit before the VM counts as `crashed`. */
  maxRestarts: Type.Integer({ minimum: 0 }),
  /**
   * After which exits the workload is restarted; absent: after all. After any other exit, the VM is `crashed` at once.
   */
  restartOn: Type.Optional(Type.Enum(['failure', 'never'])),
  /** A counter that the control plane increases to restart the VM once. */
  restarts: Type.Integer({ minimum: 0 }),
  /** Memory that the balloon leaves to the guest, in MiB; null: all of `memoryMib`. */
  balloonTargetMib: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  disks: Type.Array(DiskSpec),
  /** Firewall rules, updated while the VM runs; absent: the app has no rules, so the defaults apply. */
  firewall: Type.Optional(FirewallSpec),
  /**
   * Start from a snapshot on this host instead of booting. `renew`: the VM is a clone and gets a new identity (MAC,
   * address, machine id, entropy); false: the same VM resumes. In both cases the guest's clock is set. `alone`: no
   * other VM starts from the snapshot, so its memory need not be shared between several VMs.
   */
  from: Type.Optional(
    Type.Object({
      snapshotId: Type.String(),
      renew: Type.Boolean(),
      alone: Type.Optional(Type.Boolean()),
      /**
       * New volumes of the clone. Each gets the content that the volume `of` had in the snapshot, and is mounted in its
       * place.
       */
      clones: Type.Optional(Type.Array(Type.Object({ volumeId: Type.String(), of: Type.String() }))),
    }),
  ),
  /** This host receives the VM from another host: it starts a VMM that waits for the VM, and boots nothing. */
  incoming: Type.Optional(Type.Object({ migrationId: Type.String() })),
  /**
   * This host hands the running VM over to another host. Removing this field cancels the migration, and the VM stays.
   */
  outgoing: Type.Optional(
    Type.Object({
      migrationId: Type.String(),
      uri: Type.String(),
      /**
       * True if the migration must not pause the guest yet. The host then copies the VM, reports `ready`, and pauses the
       * guest only once this field is removed.
       */
      waits: Type.Optional(Type.Boolean()),
      /** Volumes that migrate with the VM, each with its snapshots, oldest first. */
      volumes: Type.Optional(
        Type.Array(Type.Object({ volumeId: Type.String(), snapshots: Type.Array(Type.String()) })),
      ),
    }),
  ),
})
export type VmSpec = Static<typeof VmSpec>

/**
 * Desired state of a VM. `absent` releases all resources of the VM on the host, including its scratch disk and logs.
 */
export const VmWant = Type.Enum(['running', 'paused', 'stopped', 'absent'])
export type VmWant = Static<typeof VmWant>

export const VmPut = Type.Object({
  vmId: Type.String(),
  /**
   * The host refuses a generation below the newest one that it has received, with code `stale_generation`. The same
   * generation is an idempotent repeat.
   */
  generation: Type.Integer({ minimum: 1 }),
  want: VmWant,
  spec: VmSpec,
  /**
   * W3C Trace Context of the request that caused this desired state; the host's log lines about the VM contain its
   * trace id.
   */
  traceparent: Type.Optional(Type.String()),
})
export type VmPut = Static<typeof VmPut>

/**
 * State of a VM on its host. `preparing`: image and disks are being prepared; `booting`: the VMM runs, the workload has
 * not started; `running`: the workload runs (see `healthy`); `crashed`: the workload exited more often than
 * `maxRestarts` allows or could not be started, which is final until a new generation. `absent`: nothing of the VM is
 * left on the host.
 */
export const VmState = Type.Enum([
  'preparing',
  'booting',
  'running',
  'paused',
  'stopping',
  'stopped',
  'crashed',
  'absent',
])
export type VmState = Static<typeof VmState>

/**
 * Duration of one step of a VM's start. Steps of a boot: `image`, `base`, `disk`, `spawn`, `boot`, `healthy`; from a
 * snapshot: `prepare`, `disk`, `spawn`, `load`, `resume`, `healthy`.
 */
export const VmStep = Type.Object({ name: Type.String(), ms: Type.Number() })
export type VmStep = Static<typeof VmStep>

/** State of one disk in the guest. */
export const DiskObserved = Type.Object({
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['attaching', 'attached', 'detaching', 'failed']),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type DiskObserved = Static<typeof DiskObserved>

/**
 * State of a migration, as reported by one of its two hosts. `uri` is the address the target listens on. `switched`:
 * the guest runs on the target now.
 */
export const MigrationObserved = Type.Object({
  migrationId: Type.String(),
  role: Type.Enum(['source', 'target']),
  phase: Type.Enum(['preparing', 'listening', 'copying', 'switched', 'cancelled', 'failed']),
  uri: Type.Union([Type.String(), Type.Null()]),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  transferredBytes: Type.Integer(),
  totalBytes: Type.Integer(),
  downtimeMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
  /**
   * The source host is ready to pause the guest, and waits until the desired state no longer contains `outgoing.waits`.
   */
  ready: Type.Optional(Type.Boolean()),
})
export type MigrationObserved = Static<typeof MigrationObserved>

export const VmObserved = Type.Object({
  vmId: Type.String(),
  /** The newest generation of the desired state that the host had accepted at the time of the observation. */
  generation: Type.Integer(),
  /**
   * Time of the observation by the host's clock. Messages can arrive out of order: the one with the smaller value is
   * older.
   */
  atUs: Type.Optional(Type.Integer()),
  state: VmState,
  /** Whether the VM's last health check passed. */
  healthy: Type.Boolean(),
  /** Address at which the gateway reaches the app; null if there is none yet. */
  endpoint: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  imageDigest: Type.Union([Type.String(), Type.Null()]),
  hypervisor: HypervisorName,
  /**
   * Why the VM is `crashed`, or the error after which the host tries again. `code` is stable, `message` is for people.
   */
  error: Type.Union([Type.Object({ code: Type.String(), message: Type.String() }), Type.Null()]),
  exitCode: Type.Union([Type.Integer(), Type.Null()]),
  /** How often the workload was restarted. */
  restartCount: Type.Integer(),
  startedAtMs: Type.Union([Type.Number(), Type.Null()]),
  steps: Type.Array(VmStep),
  disks: Type.Optional(Type.Array(DiskObserved)),
  firewall: Type.Optional(FirewallObserved),
  migration: Type.Optional(MigrationObserved),
})
export type VmObserved = Static<typeof VmObserved>

/** Returns the report about a VM that does not exist on the host. */
export const absentVm = (vmId: string, generation: number): VmObserved => ({
  vmId,
  generation,
  state: 'absent',
  healthy: false,
  endpoint: null,
  imageDigest: null,
  hypervisor: 'qemu',
  error: null,
  exitCode: null,
  restartCount: 0,
  startedAtMs: null,
  steps: [],
})

export const VmStats = Type.Object({
  vmId: Type.String(),
  atMs: Type.Number(),
  /** Share of the VM's vCPUs that was in use over the last interval, in percent (0 to 100). */
  cpuUsage: Type.Number(),
  ramUsedBytes: Type.Integer(),
  /** Bytes that the guest has received since the VM started; `txBytes`: bytes that it has sent. */
  rxBytes: Type.Integer(),
  txBytes: Type.Integer(),
  /** Memory that the balloon leaves to the guest; absent if the VM has no balloon. */
  balloonActualMib: Type.Optional(Type.Integer()),
})
export type VmStats = Static<typeof VmStats>

/**
 * Request of `vm.exec`: runs a command in the guest through the control channel, without a shell, and replies once it
 * has exited.
 */
export const VmExec = Type.Object({
  vmId: Type.String(),
  command: Type.Array(Type.String(), { minItems: 1, maxItems: 256 }),
  timeoutMs: Type.Integer({ minimum: 1, maximum: 60_000 }),
})
export type VmExec = Static<typeof VmExec>
export const VmExecAnswer = Type.Object({
  exitCode: Type.Integer(),
  /** Reply to `vm.exec`. `stdout` and `stderr` are cut at 1 MiB each. `truncated`: whether one of them was cut. */
  stdout: Type.String(),
  stderr: Type.String(),
  truncated: Type.Boolean(),
})
export type VmExecAnswer = Static<typeof VmExecAnswer>

/**
 * Request of `vm.forget`: the control plane does not assign this VM to the host (any more), so the host removes it.
 * Refused with `stale_generation` if the host has received a newer generation.
 */
export const VmForget = Type.Object({ vmId: Type.String(), generation: Type.Integer({ minimum: 0 }) })
export type VmForget = Static<typeof VmForget>
