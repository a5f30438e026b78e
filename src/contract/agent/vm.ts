/** VMs: what is wished of one, what its host says of it, and commands in it. */
import { type Static, Type } from 'typebox'
import { FirewallObserved, FirewallSpec } from '../network.ts'

export const HypervisorName = Type.Enum(['firecracker', 'cloud-hypervisor', 'qemu', 'fake'])
export type HypervisorName = Static<typeof HypervisorName>

/** A volume (or a database's data disk) the VM shall have. Generation fences the disk: a smaller one is refused. */
export const DiskSpec = Type.Object({
  volumeId: Type.String(),
  pool: Type.String(),
  sizeMib: Type.Integer({ minimum: 1 }),
  generation: Type.Integer({ minimum: 0 }),
  mountPoint: Type.String(),
  readOnly: Type.Boolean(),
  /** Opens it where its pool is encrypted, base64. The host keeps it in memory only. */
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
   * `registry/name:tag`, `registry/name@sha256:...`, or `oci:name:tag` for an OCI layout in the host's image directory.
   */
  image: Type.String(),
  /** The image was built by us for an app of this project: the host may sign in to its registry to fetch it. */
  builtImage: Type.Optional(Type.Boolean()),
  vcpus: Type.Integer({ minimum: 1 }),
  memoryMib: Type.Integer({ minimum: 64 }),
  /** Size of the writable scratch disk over the read-only image. */
  diskMib: Type.Integer({ minimum: 16 }),
  /** Added to (and winning over) the image's environment. */
  env: Type.Record(Type.String(), Type.String()),
  /** Replaces the image's entrypoint and command when given. */
  command: Type.Optional(Type.Array(Type.String())),
  /** The TCP port the app listens on inside the guest. */
  port: Type.Integer({ minimum: 1, maximum: 65535 }),
  /** HTTP path probed on `port` (2xx and 3xx are healthy); null: a TCP connect is enough. */
  healthCheckPath: Type.Union([Type.String(), Type.Null()]),
  ipv6Address: Type.String(),
  /** How often the workload may be started again after it exits before the VM counts as `crashed`. */
  maxRestarts: Type.Integer({ minimum: 0 }),
  /** A counter: raising it restarts the VM once. */
  restarts: Type.Integer({ minimum: 0 }),
  /** Guest memory to leave to the guest; null: all of memoryMib. */
  balloonTargetMib: Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
  disks: Type.Array(DiskSpec),
  /** Followed while the VM runs; absent: no rules, the defaults hold. */
  firewall: Type.Optional(FirewallSpec),
  /**
   * Start from a snapshot that this host has instead of booting. `renew`: it is a clone, so it gets a new identity
   * (MAC, address, machine id, entropy); false: the same VM goes on where it was. Either way the clock is set. `alone`: no
   * other VM starts from it, so that its memory need not be spared for the sake of many.
   */
  from: Type.Optional(
    Type.Object({
      snapshotId: Type.String(),
      renew: Type.Boolean(),
      alone: Type.Optional(Type.Boolean()),
      /** Volumes of its own with the content that the snapshot has of others: each takes the place of one that its guest knows. */
      clones: Type.Optional(Type.Array(Type.Object({ volumeId: Type.String(), of: Type.String() }))),
    }),
  ),
  /** This host shall receive the VM from another one: it prepares a VMM that listens, and boots nothing. */
  incoming: Type.Optional(Type.Object({ migrationId: Type.String() })),
  /** This host shall hand the running VM over. Taken away again: the migration is cancelled and the VM stays here. */
  outgoing: Type.Optional(
    Type.Object({
      migrationId: Type.String(),
      uri: Type.String(),
      /** The host reports `ready` before the guest stands still, and goes on once this is gone. */
      waits: Type.Optional(Type.Boolean()),
      /** Its volumes that go along, with their snapshots, oldest first. */
      volumes: Type.Optional(
        Type.Array(Type.Object({ volumeId: Type.String(), snapshots: Type.Array(Type.String()) })),
      ),
    }),
  ),
})
export type VmSpec = Static<typeof VmSpec>

/** `absent` releases everything the VM has on the host, its scratch disk and logs included. */
export const VmWant = Type.Enum(['running', 'paused', 'stopped', 'absent'])
export type VmWant = Static<typeof VmWant>

export const VmPut = Type.Object({
  vmId: Type.String(),
  /** Refused with code `stale_generation` when smaller than what the host has seen. Equal: an idempotent repeat. */
  generation: Type.Integer({ minimum: 1 }),
  want: VmWant,
  spec: VmSpec,
  /** W3C Trace Context of the request behind the wish; its trace id is in the host's log lines about the VM. */
  traceparent: Type.Optional(Type.String()),
})
export type VmPut = Static<typeof VmPut>

/**
 * `preparing` image and disks are being made; `booting` the VMM runs, the workload is not started yet; `running` the
 * workload runs (see `healthy`); `crashed` it ended more often than `maxRestarts` allows, or could not be started:
 * terminal until a new generation. `absent`: the host has nothing of it.
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
 * One timed step of bringing a VM up: `image`, `base`, `disk`, `spawn`, `boot`, `healthy`; from a snapshot `prepare`, `disk`,
 * `spawn`, `load`, `resume`, `healthy`.
 */
export const VmStep = Type.Object({ name: Type.String(), ms: Type.Number() })
export type VmStep = Static<typeof VmStep>

/** One disk as the guest has it. */
export const DiskObserved = Type.Object({
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['attaching', 'attached', 'detaching', 'failed']),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type DiskObserved = Static<typeof DiskObserved>

/** A migration as one of its two hosts sees it. `uri` is where the target listens. `switched`: the guest runs there now. */
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
  /** The source waits for a wish without `outgoing.waits`: what comes next makes the guest stand still. */
  ready: Type.Optional(Type.Boolean()),
})
export type MigrationObserved = Static<typeof MigrationObserved>

export const VmObserved = Type.Object({
  vmId: Type.String(),
  /** The generation this observation is about: the newest wish that the host has accepted. */
  generation: Type.Integer(),
  /** The host's clock when it saw this. An answer may overtake messages: what is smaller is older. */
  atUs: Type.Optional(Type.Integer()),
  state: VmState,
  /** True once the health check has passed and as long as it passes. */
  healthy: Type.Boolean(),
  /** Where the gateway reaches the app; null while there is nothing to reach. */
  endpoint: Type.Union([Type.Object({ host: Type.String(), port: Type.Integer() }), Type.Null()]),
  imageDigest: Type.Union([Type.String(), Type.Null()]),
  hypervisor: HypervisorName,
  /** Why it is `crashed`, or the fault that is being retried. `code` is stable, `message` is for people. */
  error: Type.Union([Type.Object({ code: Type.String(), message: Type.String() }), Type.Null()]),
  exitCode: Type.Union([Type.Integer(), Type.Null()]),
  /** Starts of the workload beyond the first. */
  restartCount: Type.Integer(),
  startedAtMs: Type.Union([Type.Number(), Type.Null()]),
  steps: Type.Array(VmStep),
  disks: Type.Optional(Type.Array(DiskObserved)),
  firewall: Type.Optional(FirewallObserved),
  migration: Type.Optional(MigrationObserved),
})
export type VmObserved = Static<typeof VmObserved>

export const VmStats = Type.Object({
  vmId: Type.String(),
  atMs: Type.Number(),
  /** Share of the VM's vCPUs in use over the last interval, percent 0..100. */
  cpuUsage: Type.Number(),
  ramUsedBytes: Type.Integer(),
  /** Counted from the guest's side, since the VM started. */
  rxBytes: Type.Integer(),
  txBytes: Type.Integer(),
  /** What the guest has of its memory after the balloon took its part; absent without a balloon. */
  balloonActualMib: Type.Optional(Type.Integer()),
})
export type VmStats = Static<typeof VmStats>

/** `vm.exec`: runs a command in the guest through the control channel and answers when it ended. argv, no shell. */
export const VmExec = Type.Object({
  vmId: Type.String(),
  command: Type.Array(Type.String(), { minItems: 1, maxItems: 256 }),
  timeoutMs: Type.Integer({ minimum: 1, maximum: 60_000 }),
})
export type VmExec = Static<typeof VmExec>
export const VmExecAnswer = Type.Object({
  exitCode: Type.Integer(),
  /** Each cut at 1 MiB; `truncated` says so. */
  stdout: Type.String(),
  stderr: Type.String(),
  truncated: Type.Boolean(),
})
export type VmExecAnswer = Static<typeof VmExecAnswer>

/**
 * `vm.forget`: control does not know this VM as the host's (any more): make it absent without a spec. Refused with
 * `stale_generation` when the host has seen a newer wish than `generation`.
 */
export const VmForget = Type.Object({ vmId: Type.String(), generation: Type.Integer({ minimum: 0 }) })
export type VmForget = Static<typeof VmForget>
