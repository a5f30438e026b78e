/**
 * The wire between `control` and `agent`: schemas, types and subjects. Each side parses what it receives with these
 * schemas, so a program of another version fails with a clear message rather than with a strange one later.
 *
 * Control states wishes (`vm.put`, a full desired state with a generation) and the agent answers at once what it sees.
 * Everything slow happens in the agent's own loop; changes are published as `VmObserved`, beats carry the rest.
 */
import { type Static, Type } from 'typebox'
import { FirewallObserved, FirewallSpec, NetworkObserved } from './network.ts'

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
      ...{ snapshotId: Type.String(), renew: Type.Boolean(), alone: Type.Optional(Type.Boolean()) },
      /** Volumes of its own with the content that the snapshot has of others: each takes the place of one that its guest knows. */
      clones: Type.Optional(Type.Array(Type.Object({ volumeId: Type.String(), of: Type.String() }))),
    }),
  ),
  /** This host shall receive the VM from another one: it prepares a VMM that listens, and boots nothing. */
  incoming: Type.Optional(Type.Object({ migrationId: Type.String() })),
  /** This host shall hand the running VM over. Taken away again: the migration is cancelled and the VM stays here. */
  outgoing: Type.Optional(
    Type.Object({
      ...{ migrationId: Type.String(), uri: Type.String() },
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

/** What a driver can do on this host; what it cannot is answered 409 `unsupported_by_hypervisor`. */
export const Capabilities = Type.Object({
  pause: Type.Boolean(),
  snapshot: Type.Boolean(),
  hotplugDisk: Type.Boolean(),
  balloon: Type.Boolean(),
  migrate: Type.Enum(['none', 'live', 'stop-and-copy']),
})
export type Capabilities = Static<typeof Capabilities>

/**
 * What a VM may need of its hypervisor on this host. `raw-drives`: shows files of the host to the guest (builds).
 * `private-network`: reaches other VMs, and its app's rules hold. `kept-volumes`: snapshots of VMs that have volumes.
 * `moved-volumes`: a VM that moves while it runs takes its volumes along. `paused-moves`: one that is paused moves, too, with
 * its memory. `moved-snapshots`: snapshots of VMs go to another host and come from one. An agent may offer what this
 * program does not know: see tolerant.ts.
 */
export const hypervisorFeatures = [
  ...(['raw-drives', 'volumes', 'encrypted-volumes', 'private-network', 'kept-volumes', 'moved-volumes'] as const),
  ...(['paused-moves', 'moved-snapshots'] as const),
] as const
export type HypervisorFeature = (typeof hypervisorFeatures)[number]

export const HypervisorOffer = Type.Object({
  name: HypervisorName,
  available: Type.Boolean(),
  /** Not known yet: the agent has just started and is finding out. */
  probing: Type.Optional(Type.Boolean()),
  /** Why it is not available, or how it runs (`kvm`, `tcg`). */
  detail: Type.String(),
  capabilities: Capabilities,
  /** Absent: an agent that does not tell; all are taken for granted. */
  features: Type.Optional(Type.Array(Type.String())),
  /** `SnapshotObserved.madeBy` of a snapshot that is made here now: one of another does not go on here. */
  snapshotKind: Type.Optional(Type.String()),
})
export type HypervisorOffer = Static<typeof HypervisorOffer>

/** Undefined: an agent that does not tell what it offers. */
export const offersFeature = (
  { features }: Pick<HypervisorOffer, 'features'>,
  feature: HypervisorFeature,
): boolean | undefined => features?.includes(feature)

/** A place for volumes on a host, as its beats tell. */
export const PoolOffer = Type.Object({
  name: Type.String(),
  /** What it is made of: `dir`, `lvm-thin`, `rbd`, ... */
  kind: Type.String(),
  /** Every host with the pool of this name reaches the same volumes. */
  shared: Type.Boolean(),
  /** Rounded down, so that beats of a quiet host stay equal. */
  freeBytes: Type.Integer(),
  encrypted: Type.Boolean(),
})
export type PoolOffer = Static<typeof PoolOffer>

/** Published on `host.<id>.out.beat` every second. `vms` (all of them) comes with the first beat and every 15th. */
export const HostBeat = Type.Object({
  hostId: Type.String(),
  name: Type.String(),
  /** New for every start of the agent. */
  incarnation: Type.String(),
  version: Type.String(),
  arch: Type.String(),
  vcpus: Type.Integer(),
  memoryMib: Type.Integer(),
  diskMib: Type.Integer(),
  hypervisors: Type.Array(HypervisorOffer),
  /** How guests are connected: `tap` (root), `user` (QEMU user networking), `fake`. */
  network: Type.String(),
  vms: Type.Union([Type.Array(VmObserved), Type.Null()]),
  stats: Type.Array(VmStats),
  pools: Type.Optional(Type.Array(PoolOffer)),
  privateNetwork: Type.Optional(NetworkObserved),
  /** Images of database engines in the host's image directory, such as `postgres:15`. */
  databaseImages: Type.Optional(Type.Array(Type.String())),
})
export type HostBeat = Static<typeof HostBeat>

/**
 * A volume, or a snapshot of a VM, on its way, as one of the two hosts sees it. `copied`: all that can be sent while somebody writes has been.
 * `complete`: the target has read back the same bytes.
 */
export const Transfer = Type.Object({
  transferId: Type.String(),
  role: Type.Enum(['source', 'target']),
  phase: Type.Enum(['preparing', 'listening', 'copying', 'copied', 'complete', 'failed']),
  /** Where the target listens; empty where a VM brings it. */
  uri: Type.Union([Type.String(), Type.Null()]),
  percent: Type.Number({ minimum: 0, maximum: 100 }),
  transferredBytes: Type.Integer(),
  totalBytes: Type.Integer(),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type Transfer = Static<typeof Transfer>

/**
 * `snapshot.put`: a snapshot of a VM on this host, as a wish of its own, since it outlives the VM. `present` takes it
 * once (pause, memory and scratch disk together, resume); the VM must be running or paused. `absent` removes it, as soon
 * as no VM that was started from it needs its files.
 */
export const SnapshotPut = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  /**
   * What becomes of a VM that has volumes. `go-on` (default): the snapshot has a copy of each. `stay`: there are no copies,
   * and the VM is not let run again as long as the snapshot is there, so that its volumes stay as they are.
   */
  afterwards: Type.Optional(Type.Enum(['go-on', 'stay'])),
  /** It was taken before: a host that has lost it says so, and takes nothing in its place. */
  taken: Type.Optional(Type.Literal(true)),
  /** It comes from another host: this one takes nothing of its own, makes room, and tells where it listens. */
  incoming: Type.Optional(
    Type.Object({ transferId: Type.String(), sizeBytes: Type.Integer({ minimum: 0 }), madeBy: Type.String() }),
  ),
  /** What came by this transfer counts from here on; without it there is nothing to count. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /** Another host gets a copy. What it has of volumes goes with these. */
  outgoing: Type.Optional(Type.Object({ transferId: Type.String(), uri: Type.String() })),
})
export type SnapshotPut = Static<typeof SnapshotPut>

/** A volume that a VM had when its snapshot was taken. */
export const SnapshotDisk = Type.Object({
  volumeId: Type.String(),
  /** Of its attachment then. */
  generation: Type.Integer(),
  mountPoint: Type.String(),
  readOnly: Type.Boolean(),
  /** The snapshot has the volume's content of that moment. */
  copied: Type.Boolean(),
})
export type SnapshotDisk = Static<typeof SnapshotDisk>

/** Published on `subjects.snapshot(...)` on every change, and the answer of `snapshot.put` and `snapshot.get`. */
export const SnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  vmId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** Over memory, device state and disk; checked before a start from it. */
  sha256: Type.Union([Type.String(), Type.Null()]),
  /** What a start from it needs to be equal: VMM and version, CPU model, architecture. */
  madeBy: Type.Union([Type.String(), Type.Null()]),
  /** How long the guest stood still. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
  /** Absent: the VM had no volumes. */
  disks: Type.Optional(Type.Array(SnapshotDisk)),
  transfer: Type.Optional(Transfer),
})
export type SnapshotObserved = Static<typeof SnapshotObserved>

/**
 * `volume.put`: a volume on this host, as a full wish of its own, since it outlives every VM. It is made empty, or with
 * the content of a snapshot (`from`); `restore` puts it back to a snapshot of its own, once for each `count`, while no VM
 * has it. A larger `sizeMib` than before grows it, also while a VM has it; it never shrinks. `absent` removes it with its
 * snapshots, as soon as no VM has it.
 */
export const VolumePut = Type.Object({
  volumeId: Type.String(),
  /** Refused with code `stale_generation` when smaller than what the host has seen. Equal: an idempotent repeat. */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  pool: Type.String(),
  sizeMib: Type.Integer({ minimum: 1 }),
  from: Type.Optional(Type.Object({ volumeId: Type.String(), snapshotId: Type.String() })),
  /** A new one begins with what this image has for volumes (`/usr/share/mote/volume`). */
  image: Type.Optional(Type.String()),
  restore: Type.Optional(Type.Object({ snapshotId: Type.String(), count: Type.Integer({ minimum: 1 }) })),
  /** As in `DiskSpec`. */
  key: Type.Optional(Type.String()),
  /**
   * It comes from another host: this one makes room, tells where it listens, and makes nothing of its own. With `vmId` that VM
   * brings it as it moves here. No VM has it before a later wish says that it `arrived`.
   */
  incoming: Type.Optional(Type.Object({ transferId: Type.String(), vmId: Type.Optional(Type.String()) })),
  /** What came by this transfer counts from here on; without it there is nothing to count. */
  arrived: Type.Optional(Type.Object({ transferId: Type.String() })),
  /**
   * Another host gets a copy, with these snapshots (oldest first). A VM may go on with it until `final`: from then on nobody
   * gets it any more, and when nobody has it the rest is sent.
   */
  outgoing: Type.Optional(
    Type.Object({
      ...{ transferId: Type.String(), uri: Type.String(), final: Type.Boolean() },
      snapshots: Type.Array(Type.String()),
    }),
  ),
})
export type VolumePut = Static<typeof VolumePut>

/** Published on `subjects.volume(...)` on every change, and the answer of `volume.put` and `volume.get`. */
export const VolumeObserved = Type.Object({
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'restoring', 'failed', 'removing', 'absent']),
  /** `restore.count` of the last restore that was done. */
  restored: Type.Integer(),
  /** As large as it is; 0 while it is being made. */
  sizeMib: Type.Optional(Type.Integer()),
  error: Type.Union([Type.String(), Type.Null()]),
  transfer: Type.Optional(Transfer),
})
export type VolumeObserved = Static<typeof VolumeObserved>

/** `volume.snapshot`: a snapshot of a volume on this host; taken once, crash-consistent also while a VM writes. */
export const VolumeSnapshotPut = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  pool: Type.String(),
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
})
export type VolumeSnapshotPut = Static<typeof VolumeSnapshotPut>

/** Published on `subjects.volumeSnapshot(...)` on every change, and the answer of `volume.snapshot`. */
export const VolumeSnapshotObserved = Type.Object({
  snapshotId: Type.String(),
  volumeId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['creating', 'ready', 'failed', 'removing', 'absent']),
  sizeBytes: Type.Integer(),
  /** How long the VM that has the volume stood still; 0 when none has it. */
  pauseMs: Type.Union([Type.Number(), Type.Null()]),
  error: Type.Union([Type.String(), Type.Null()]),
})
export type VolumeSnapshotObserved = Static<typeof VolumeSnapshotObserved>

/** Published on `subjects.volumeUsage(...)`: what volumes really take, measured by their host. */
export const VolumeUsages = Type.Object({
  volumes: Type.Array(
    Type.Object({ volumeId: Type.String(), usedBytes: Type.Integer(), snapshotBytes: Type.Integer() }),
  ),
})
export type VolumeUsages = Static<typeof VolumeUsages>

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

export const LogStream = Type.Enum(['stdout', 'stderr', 'system', 'build'])
export type LogStream = Static<typeof LogStream>

export const LogLine = Type.Object({
  /** Microseconds since the epoch; strictly increasing for one VM, so it serves as the line's id. */
  atUs: Type.Integer(),
  stream: LogStream,
  line: Type.String(),
})
export type LogLine = Static<typeof LogLine>

/** Published on `subjects.log(...)`: consecutive lines of one VM, at most 256 of them. */
export const LogBatch = Type.Object({
  vmId: Type.String(),
  deploymentId: Type.String(),
  /** Lines that were dropped since the batch before (the guest wrote faster than the limit). */
  dropped: Type.Integer(),
  lines: Type.Array(LogLine),
})
export type LogBatch = Static<typeof LogBatch>

/**
 * `vm.logs`: the newest `tail` kept lines after `afterUs` of one VM. Answers `{ lines: LogLine[] }`, oldest first, and
 * `more` when a message of the bus could not hold them all: the next request is for those after the last one.
 * With `events` an agent that knows it answers the bytes of log-page.ts instead.
 */
export const VmLogsRequest = Type.Object({
  vmId: Type.String(),
  tail: Type.Integer({ minimum: 0, maximum: 100_000 }),
  afterUs: Type.Integer({ minimum: 0 }),
  /** Lines as events of the stream, which name this deployment. */
  events: Type.Optional(Type.Object({ deploymentId: Type.String() })),
})
export type VmLogsRequest = Static<typeof VmLogsRequest>

export const VmLogsAnswer = Type.Object({ lines: Type.Array(LogLine), more: Type.Optional(Type.Literal(true)) })
export type VmLogsAnswer = Static<typeof VmLogsAnswer>

/**
 * `vm.forget`: control does not know this VM as the host's (any more): make it absent without a spec. Refused with
 * `stale_generation` when the host has seen a newer wish than `generation`.
 */
export const VmForget = Type.Object({ vmId: Type.String(), generation: Type.Integer({ minimum: 0 }) })
export type VmForget = Static<typeof VmForget>

/**
 * `build.put`: an image of a repository, made in a throw-away VM of this host. Repeated until it is over: an equal
 * generation is a repeat, and a host that restarted begins again. `absent` ends it and removes all but its log.
 */
export const BuildPut = Type.Object({
  buildId: Type.String(),
  /** Refused with code `stale_generation` when smaller than what the host has seen. */
  generation: Type.Integer({ minimum: 1 }),
  want: Type.Enum(['present', 'absent']),
  spec: Type.Object({
    projectId: Type.String(),
    appId: Type.String(),
    deploymentId: Type.String(),
    hypervisor: HypervisorName,
    source: Type.Object({
      /** Instead of a repository: what was sent to the control plane, named by its SHA-256 (hexadecimal); `url` is empty then. */
      upload: Type.Optional(Type.String()),
      /** http(s), or with `ssh` also `ssh://` and `user@host:path`. */
      url: Type.String(),
      /** Empty: the repository's default branch. */
      branch: Type.String(),
      /** Full commit id; empty: the newest of the branch. */
      commit: Type.String(),
      /** HTTP basic authentication; the host neither stores it nor shows it to the VM. */
      auth: Type.Optional(Type.Object({ username: Type.String(), password: Type.String() })),
      /** A deploy key (OpenSSH's format), and the host's keys (sshd(8), known_hosts); as with `auth`. */
      ssh: Type.Optional(Type.Object({ privateKey: Type.String(), knownHosts: Type.String() })),
      /** Those on the same host are fetched, too. */
      submodules: Type.Optional(Type.Boolean()),
      /** The repository may be at a private address, and without TLS. */
      allowPrivate: Type.Boolean(),
    }),
    vcpus: Type.Integer({ minimum: 1 }),
    memoryMib: Type.Integer({ minimum: 64 }),
    diskMib: Type.Integer({ minimum: 64 }),
    timeLimitMs: Type.Integer({ minimum: 1 }),
    /** `registry/repository` to push to; null: an OCI layout in the host's image directory. */
    repository: Type.Union([Type.String(), Type.Null()]),
  }),
})
export type BuildPut = Static<typeof BuildPut>

/** The answer of `build.put`, and published on `subjects.build(...)` on every change. */
export const BuildObserved = Type.Object({
  buildId: Type.String(),
  generation: Type.Integer(),
  state: Type.Enum(['fetching', 'building', 'pushing', 'succeeded', 'failed', 'absent']),
  /** Pinned by digest; null before it is pushed. */
  image: Type.Union([Type.String(), Type.Null()]),
  commit: Type.Union([
    Type.Object({ branch: Type.String(), hash: Type.String(), message: Type.String() }),
    Type.Null(),
  ]),
  /** Why it failed, for people. */
  error: Type.Union([Type.String(), Type.Null()]),
})
export type BuildObserved = Static<typeof BuildObserved>

/** A part of a source that was sent to the control plane, asked for by the host that builds it. */
export const SourceRequest = Type.Object({
  buildId: Type.String(),
  offset: Type.Integer({ minimum: 0 }),
})
export type SourceRequest = Static<typeof SourceRequest>

export const SourcePart = Type.Object({
  /** Base64; at most 512 KiB of the archive. */
  data: Type.String(),
  sizeBytes: Type.Integer(),
})
export type SourcePart = Static<typeof SourcePart>

/**
 * Requests that a host answers on `subjects.hostIn(id, verb)`; each answers within a second.
 * `vm.put` VmPut -> VmObserved; `vm.get` {vmId} -> VmObserved; `vm.list` {} -> {vms: VmObserved[]};
 * `vm.logs` VmLogsRequest -> VmLogsAnswer or bytes; `vm.forget` VmForget -> VmObserved; `ping` {} -> {incarnation};
 * `snapshot.put` SnapshotPut -> SnapshotObserved; `snapshot.get` {snapshotId} -> SnapshotObserved;
 * `vm.exec` VmExec -> VmExecAnswer (the one that takes as long as its command);
 * `build.put` BuildPut -> BuildObserved. `vm.logs` knows builds by their id, too.
 */
export type HostVerb = 'vm.put' | 'vm.get' | 'vm.list' | 'vm.logs' | 'vm.forget' | 'ping'
/** Verbs of VMs that run: a driver without the capability answers with code `unsupported_by_hypervisor`. */
export type RuntimeVerb = 'snapshot.put' | 'snapshot.get' | 'vm.exec'
export type BuildVerb = 'build.put'
/** `network.put` HostNetwork -> NetworkObserved. */
export type NetworkVerb = 'network.put'
/** `volume.put` VolumePut -> VolumeObserved; `volume.get` {volumeId} -> VolumeObserved; `volume.snapshot` as named. */
export type VolumeVerb = 'volume.put' | 'volume.get' | 'volume.snapshot'

export const subjects = {
  hostIn: (hostId: string, verb: HostVerb | RuntimeVerb | VolumeVerb | NetworkVerb | BuildVerb) =>
    `host.${hostId}.in.${verb}`,
  /** HostBeat */
  beat: (hostId: string) => `host.${hostId}.out.beat`,
  /** VmObserved, published on every change of state, health or endpoint. */
  seen: (hostId: string) => `host.${hostId}.out.seen`,
  /** LogBatch */
  log: (at: { hostId: string; projectId: string; appId: string; deploymentId: string; vmId: string }) =>
    `log.${at.hostId}.${at.projectId}.${at.appId}.${at.deploymentId}.${at.vmId}`,
  /** SnapshotObserved */
  snapshot: (hostId: string) => `host.${hostId}.out.snapshot`,
  /** VolumeObserved */
  volume: (hostId: string) => `host.${hostId}.out.volume`,
  /** VolumeSnapshotObserved */
  volumeSnapshot: (hostId: string) => `host.${hostId}.out.volume-snapshot`,
  /** VolumeUsages */
  volumeUsage: (hostId: string) => `host.${hostId}.out.volume-usage`,
  allVolumes: 'host.*.out.volume',
  allVolumeSnapshots: 'host.*.out.volume-snapshot',
  allVolumeUsages: 'host.*.out.volume-usage',
  allSnapshots: 'host.*.out.snapshot',
  /** BuildObserved */
  build: (hostId: string) => `host.${hostId}.out.build`,
  allBuilds: 'host.*.out.build',
  /** SourceRequest -> SourcePart, answered by the control plane. */
  source: (hostId: string) => `host.${hostId}.out.source`,
  allSources: 'host.*.out.source',
  allBeats: 'host.*.out.beat',
  allSeen: 'host.*.out.seen',
} as const
