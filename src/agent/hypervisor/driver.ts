import type { Endpoint } from '../base/endpoint.ts'
import type { PrepareContext } from '../base/prepare-context.ts'
import type {
  Capabilities,
  DiskSpec,
  HypervisorName,
  SnapshotDisk,
  VmExecAnswer,
  VmSpec,
} from '../../contract/agent.ts'
import type { GuestWord } from '../guest/channel.ts'
import type { GuestFault } from '../guest/fault.ts'
import type { Frame } from '../guest/frames.ts'
import type { GuestSessions } from '../guest/sessions.ts'
import type { Wire } from './transfer/wire.ts'
import type { ProcessIdentity } from '../../lib/process-identity.ts'

/** The driver's view of one VM: its desired state and its directory. */
export interface VmHome {
  readonly vmId: string
  /** The VM's directory. Only its driver and the agent's VM record write to it. */
  readonly dir: string
  readonly spec: VmSpec
  /** The snapshot to restore instead of a boot: `spec.from`, after the agent has found and verified it. */
  readonly from?: SnapshotSource
  /** Volumes that move to this host with the VM. */
  readonly arriving?: ArrivingVolumes
  /** Additional disks. Only a driver with `showsDrives` accepts a VM that has some. */
  readonly drives?: readonly RawDrive[]
}

/**
 * A file that the guest sees as a raw disk with this serial (letters and digits, at most 20). If the hypervisor assigns
 * serials itself, `mote.<serial>=` on the kernel's command line maps this serial to the assigned one.
 */
export interface RawDrive {
  readonly serial: string
  readonly file: string
  readonly readOnly: boolean
  /** The drive has a file system, which a driver with `mountsDrives` mounts. */
  readonly fileSystem?: 'ext4'
}

/** A driver's description of a snapshot that it took. Plain data, stored next to the snapshot's files. */
export interface SnapshotMade {
  /** VMM, its version and the CPU model. Only a host with the same values can restore the snapshot. */
  readonly madeBy: string
  readonly imageDigest: string
  /** Image reference in the VM's desired state; absent in snapshots of earlier releases. */
  readonly image?: string
  /** How long the guest was paused for the snapshot. */
  readonly pauseMs: number
  /** Data that only the driver interprets. */
  readonly notes: Prepared['notes']
  /** Volumes that were attached to the VM. */
  readonly disks?: readonly SnapshotDisk[]
  /** True if the VM has not run since the snapshot. Its volumes are unchanged, unless another VM had them attached. */
  readonly stays?: boolean
  /** True if the app was healthy when the snapshot was taken. */
  readonly healthy?: boolean
}

/** A volume, and the file or device through which a VM uses it. */
export interface OpenDisk {
  readonly disk: DiskSpec
  readonly file: string
  /** Key of the LUKS container in the file, base64. */
  readonly key?: string
}

/**
 * A volume for a guest that is restored from a snapshot. It takes the place of the volume `of`, which this guest has
 * mounted: it is the same volume or a clone of it.
 */
export interface KeptDisk extends OpenDisk {
  readonly of: string
}

export interface SnapshotSource {
  /** Directory with the driver's files; read-only. */
  readonly dir: string
  readonly made: SnapshotMade
  /** True for a clone, which gets a new identity. Every restored guest gets the current time and new entropy. */
  readonly renew: boolean
  /** True if no other VM starts from this snapshot, so that there are no clones to share memory with. */
  readonly alone?: boolean
  /** The volumes that the snapshot's guest has mounted, with their contents at the time of the snapshot. */
  readonly disks?: readonly KeptDisk[]
  /** Called after the snapshot is loaded; the guest runs only once the promise resolves. */
  readonly beforeRun?: () => Promise<void>
}

/** Volumes that move away with their VM. */
export interface LeavingVolumes {
  /** Sends all data of the volumes that can precede the VM: their snapshots and, if encrypted, LUKS headers. */
  send(wire: Wire): Promise<void>
}

/** Volumes that arrive with their VM. */
export interface ArrivingVolumes {
  readonly count: number
  /** Receives what `LeavingVolumes.send` sends. The returned volumes are open, but not complete yet. */
  take(wire: Wire): Promise<readonly OpenDisk[]>
  /** Marks the volumes as complete. The mark is durable once the promise resolves. */
  keep(): Promise<void>
}

/** Progress of a migration. */
export interface MigrationProgress {
  readonly percent: number
  readonly transferredBytes: number
  readonly totalBytes: number
}

/** A process that waits for a VM from another host. */
export interface Arrival {
  /** The waiting process, which has no workload yet. Stored so that a restarted agent finds it. */
  readonly running: Running
  /** Address that the source connects to. */
  readonly uri: string
  /** Resolves when the guest runs on this host. Rejects if the migration failed, after the process has exited. */
  readonly arrived: Promise<RunningVm>
  /** Kills the waiting process. */
  cancel(): Promise<void>
  /** Called when the agent stops: closes the connections to the waiting process. A transfer in progress then fails. */
  detach?(): void
  /** True once the source gave up the VM and the guest has run on this host. Without it, only `arrived` shows this. */
  hasRun?(): boolean
}

/** The resources that `prepare` has created for the next boot. Plain data, stored and passed to `boot` and `adopt`. */
export interface Prepared {
  readonly imageDigest: string
  readonly endpoint: Endpoint
  /** Data that only the driver interprets, such as the tap's name; JSON values. */
  readonly notes: Readonly<Record<string, string | number | null>>
}

/** The process of a running VM. Stored so that a restarted agent finds it. */
export interface Running {
  readonly prepared: Prepared
  readonly process: ProcessIdentity
  /** Boot counter of this VM. Log lines carry it, because the guest restarts its line numbers at each boot. */
  readonly boot: number
}

export interface Probed {
  readonly available: boolean
  readonly detail: string
  /** True if guests run on an emulated processor. */
  readonly emulated?: boolean
}

/** Receives the events of a running VM. `onGone` is the last call. */
export interface Watcher {
  readonly onFrames: (frames: readonly Frame[]) => void
  /** The workload has exited. The VM keeps running until it is stopped. */
  readonly onExit: (code: number) => void
  /** The guest violated the protocol of its ports. The ports are closed for good, so the VM can only be killed. */
  readonly onBroken: (fault: GuestFault) => void
  /** The VM's process has exited. `detail` has the last lines of its console, if any. */
  readonly onGone: (detail: string) => void
}

/** A prepared copy of a volume. Disposing it cancels the copy. */
export interface DiskCopy extends AsyncDisposable {
  /** Starts the copy: it will have the volume's contents at this point in time. */
  begin(): Promise<void>
  /** Resolves when the copy is complete. @throws StepError `vm_not_running`, or an error of the hypervisor */
  whole(): Promise<void>
}
export type DiskCopier = (volumeId: string, target: string) => Promise<DiskCopy>

export type WorkloadState = { readonly state: 'running' } | { readonly state: 'exited'; readonly code: number }

/** Counters since the VM's start; the agent computes rates from them. */
export interface VmStatistics {
  readonly cpuSeconds: number
  readonly ramUsedBytes: number
  /** Bytes that the guest has received (`rx`) and sent (`tx`). */
  readonly rxBytes: number
  readonly txBytes: number
  /** Memory that the balloon leaves to the guest; absent without a balloon. */
  readonly balloonActualMib?: number
}

/** One running VM. */
export interface RunningVm {
  readonly running: Running
  /** State of the workload when the VM was booted or adopted. */
  readonly workload: WorkloadState
  /** Reads from the hypervisor whether the VM is paused. */
  inspect(): Promise<'running' | 'paused'>
  startWorkload(): Promise<void>
  /** The driver's own health check, for guests that have no network. */
  readonly probe?: (signal: AbortSignal) => Promise<boolean>
  /** True if a program in the guest accepts TCP connections on the port. */
  listening(port: number): Promise<boolean>
  /**
   * Shuts the guest down, and kills it after `graceMs`. Resolves when no process is left.
   * @param after the guest's message to wait for. `exit`: its program has exited, which is enough if the scratch disk
   * is not needed. Default: the guest has flushed its disks.
   */
  stop(graceMs: number, after?: GuestWord): Promise<void>
  /** Kills the VM immediately. A paused guest stays paused until then. */
  kill(): Promise<void>
  pause(): Promise<void>
  resume(): Promise<void>
  stats(): Promise<VmStatistics>
  /**
   * Sets how much of its memory the guest keeps (null: all), with a minimum set by the driver. Capability `balloon`.
   */
  setBalloon?(targetMib: number | null): Promise<void>
  /** Runs a program in the guest, without a shell. */
  exec?(command: readonly string[], timeoutMs: number): Promise<VmExecAnswer>
  /** Processes with input, output and signals, which continue when the agent restarts. */
  readonly sessions?: GuestSessions
  /** Copies the volume as of one point in time while the guest runs. Drivers without this method pause the guest. */
  copyDisk?(volumeId: string, target: string): Promise<DiskCopy>
  /** Writes memory, devices and scratch disk into the empty directory, and resumes the guest. Capability `snapshot`. */
  snapshot?(dir: string): Promise<SnapshotMade>
  /** Attaches the file to the guest as a disk and mounts it. Idempotent. Capability `hotplugDisk`. */
  attachDisk?(disk: DiskSpec, file: string, key?: string): Promise<void>
  /**
   * Grows the guest's disk and its file system after its file has grown. Drivers without it do that at the next start.
   */
  growDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>, sizeMib: number): Promise<void>
  /** Flushes and freezes the disk's file system in the guest, for a few seconds at most. */
  freezeDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /** Lets writes to the file system continue after `freezeDisk`. Idempotent. */
  thawDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /** Unmounts and detaches the disk. Idempotent. */
  detachDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /**
   * Moves the VM to the host that listens at `Arrival.uri`. Resolves when the VM runs on that host and is stopped on
   * this one. On failure or abort, the VM keeps running on this host. Capability `migrate`.
   * @param volumes the VM's volumes, if its driver has `movesVolumes`
   * @param release awaited before the guest is paused for the switchover; rejects if the VM must stay on this host
   */
  handOver?(
    uri: string,
    onProgress: (progress: MigrationProgress) => void,
    signal: AbortSignal,
    volumes?: LeavingVolumes,
    release?: () => Promise<void>,
  ): Promise<{ readonly downtimeMs: number }>
  /** Confirms that log frames up to `seq` are stored. */
  ack(seq: number): void
  /** Closes the connections to the VM when the agent stops. The VM keeps running. */
  detach(): void
}

/**
 * The interface that every hypervisor implements. Optional features are declared in `capabilities` and are optional
 * methods of `RunningVm`; a request for a missing feature is refused with `unsupported_by_hypervisor`.
 */
export interface Driver {
  readonly name: HypervisorName
  readonly capabilities: Capabilities
  /** VMs can attach volumes that are LUKS containers. */
  readonly opensLuks?: boolean
  /** VMs can have `VmHome.drives`. */
  readonly showsDrives?: boolean
  /**
   * True if the host mounts drives that have a file system, as on gVisor; the guest sees `/.mote-volumes/<serial>`. No
   * guest may ever access the raw disk, because it could forge a file system.
   */
  readonly mountsDrives?: boolean
  /** Restores snapshots of VMs that have volumes (`SnapshotSource.disks`). */
  readonly keepsVolumes?: boolean
  /** A live migration also moves the VM's volumes (`VmHome.arriving`). */
  readonly movesVolumes?: boolean
  /** Paused VMs can be migrated to and from this host. */
  readonly movesPaused?: boolean
  /** Restores snapshots that another host has taken. */
  readonly movesSnapshots?: boolean
  /** Network mode of guests, for the host's heartbeat. */
  readonly network: string
  /** Checks whether the hypervisor works on this host. `detail`: its accelerator (`kvm`, `tcg`), or why it fails. */
  probe(signal: AbortSignal): Promise<Probed>
  /** Provides the image and the network before the VMM starts. Called again after a failure or before a new boot. */
  prepare(home: VmHome, context: PrepareContext): Promise<Prepared>
  /** Returns the `madeBy` of a snapshot that would be taken now. */
  snapshotKind?(): Promise<string>
  /** Replaces `boot` for an arriving VM: starts a process that waits for it. On failure or abort no process is left. */
  receive?(home: VmHome, prepared: Prepared, boot: number, watcher: Watcher, context: PrepareContext): Promise<Arrival>
  /** Resolves when the workload was started or restored from `home.from`. On failure or abort no process is left. */
  boot(home: VmHome, prepared: Prepared, boot: number, watcher: Watcher, context: PrepareContext): Promise<RunningVm>
  /** Reconnects to a VM that outlived the agent; undefined if it has exited. `fromSeq`: the last stored log frame. */
  adopt(home: VmHome, running: Running, fromSeq: number, watcher: Watcher): Promise<RunningVm | undefined>
  /** Returns a function that copies volumes of this VM while it runs; undefined if the driver cannot do that. */
  copierOf?(vmId: string): DiskCopier | undefined
  /** Called when the VM's process has exited: completes the volumes' files if the host mounted them. Idempotent. */
  closeVolumes?(dir: string): Promise<void>
  /** Releases all resources of `prepare`. Idempotent, also after a failed `prepare`. */
  release(vmId: string, dir: string): Promise<void>
  /** Called at the agent's start before any VM: removes the resources of all VMs that are not in `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  close(): Promise<void>
}
