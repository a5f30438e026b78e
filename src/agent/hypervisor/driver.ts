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
import type { Wire } from './transfer/wire.ts'
import type { ProcessIdentity } from '../../lib/process-identity.ts'

/** What a driver gets to know about one VM: its wish and its directory. */
export interface VmHome {
  readonly vmId: string
  /** The VM's own directory; only its driver and the agent's state write here. */
  readonly dir: string
  readonly spec: VmSpec
  /** Start from this snapshot instead of booting; `spec.from`, resolved and verified. */
  readonly from?: SnapshotSource
  /** Volumes that it brings from the host that it comes from. */
  readonly arriving?: ArrivingVolumes
  /** Disks besides its own; only a driver that shows them may take such a VM. */
  readonly drives?: readonly RawDrive[]
}

/**
 * A file as it is, which the guest finds by its serial; `mote.<serial>=` on the kernel's command line names another one,
 * where the hypervisor chooses serials by itself. Letters and digits, at most 20.
 */
export interface RawDrive {
  readonly serial: string
  readonly file: string
  readonly readOnly: boolean
}

/** What a driver says of a snapshot that it made. Plain data: it is stored beside the files. */
export interface SnapshotMade {
  /** VMM and version, CPU model: a start from it needs the same. */
  readonly madeBy: string
  readonly imageDigest: string
  /** What the VM's wish called the image; absent in older ones. */
  readonly image?: string
  /** How long the guest stood still. */
  readonly pauseMs: number
  /** The driver's own notes. */
  readonly notes: Prepared['notes']
  /** Volumes that it had. */
  readonly disks?: readonly SnapshotDisk[]
  /** The VM was not let run any more: its volumes are as they were then, unless somebody else has had them. */
  readonly stays?: boolean
  /** Its app was well. */
  readonly healthy?: boolean
}

/** A volume that is open for a VM. */
export interface OpenDisk {
  readonly disk: DiskSpec
  readonly file: string
  /** Of the LUKS container that the file is, base64. */
  readonly key?: string
}

/** A volume that takes the place of one (`of`) that the snapshot's guest has mounted: the same one, or a clone of it. */
export interface KeptDisk extends OpenDisk {
  readonly of: string
}

export interface SnapshotSource {
  /** Holds the driver's files; read-only. */
  readonly dir: string
  readonly made: SnapshotMade
  /** A clone: it gets a new identity. Clock and entropy are renewed in any case. */
  readonly renew: boolean
  /** Others that start from it are none that its memory would have to be spared for. */
  readonly alone?: boolean
  /** The volumes that the snapshot's guest has mounted, as they were then. */
  readonly disks?: readonly KeptDisk[]
  /** Awaited when all is loaded, before the guest runs. */
  readonly beforeRun?: () => Promise<void>
}

/** Volumes that leave with their VM. */
export interface LeavingVolumes {
  /** What can be sent before the VM itself: their snapshots, and where theirs begins what opens them. */
  send(wire: Wire): Promise<void>
}

/** Volumes that come with their VM. */
export interface ArrivingVolumes {
  readonly count: number
  /** The other end of `LeavingVolumes.send`; they are open then, and not whole yet. */
  take(wire: Wire): Promise<readonly OpenDisk[]>
  /** They are whole: after it resolves that survives a power cut. */
  keep(): Promise<void>
}

/** How far a migration is. */
export interface MigrationProgress {
  readonly percent: number
  readonly transferredBytes: number
  readonly totalBytes: number
}

/** A VM that is about to arrive from another host. */
export interface Arrival {
  /** What must be stored to find the waiting process again; there is no workload in it yet. */
  readonly running: Running
  /** Where it listens, for the source. */
  readonly uri: string
  /** Resolves when the guest runs here; rejects when it did not come (the process has gone then). */
  readonly arrived: Promise<RunningVm>
  /** Ends the waiting process. */
  cancel(): Promise<void>
  /** Lets go of the waiting process: the agent ends. What goes through it breaks off. */
  detach?(): void
  /** The source has let go for good: the guest has run here. Without it, that is not known before `arrived`. */
  hasRun?(): boolean
}

/** What has been made for the next boot. Plain data: it is stored, and given back to `boot` and `adopt`. */
export interface Prepared {
  readonly imageDigest: string
  readonly endpoint: Endpoint
  /** The driver's own notes, such as the tap's name. JSON. */
  readonly notes: Readonly<Record<string, string | number | null>>
}

/** What must be stored to find a running VM again after a restart of the agent. */
export interface Running {
  readonly prepared: Prepared
  readonly process: ProcessIdentity
  /** Counts the boots of this VM; log lines carry it, so that the guest's numbering is told apart. */
  readonly boot: number
}

/** Receives what happens inside; no call after `onGone`. */
export interface Watcher {
  readonly onFrames: (frames: readonly Frame[]) => void
  /** The workload ended; the VM lives on until told otherwise. */
  readonly onExit: (code: number) => void
  /** The guest broke the protocol of its ports, which are closed for good: it can only be ended. */
  readonly onBroken: (fault: GuestFault) => void
  /** The VM has gone. `detail` has the console's last lines, if any. */
  readonly onGone: (detail: string) => void
}

/** A copy of a volume that is to be made; disposed of, nothing of it goes on. */
export interface DiskCopy extends AsyncDisposable {
  /** The instant that it is of. */
  begin(): Promise<void>
  /** Resolves when it is whole. @throws StepError `vm_not_running`, or what the hypervisor says */
  whole(): Promise<void>
}
export type DiskCopier = (volumeId: string, target: string) => Promise<DiskCopy>

export type WorkloadState = { readonly state: 'running' } | { readonly state: 'exited'; readonly code: number }

/** Raw counters; the agent makes rates of them. */
export interface VmStatistics {
  readonly cpuSeconds: number
  readonly ramUsedBytes: number
  /** From the guest's side. */
  readonly rxBytes: number
  readonly txBytes: number
  /** What the balloon leaves to the guest; absent without one. */
  readonly balloonActualMib?: number
}

/** One running VM. */
export interface RunningVm {
  readonly running: Running
  /** The state of the workload when the machine was booted or adopted. */
  readonly workload: WorkloadState
  /** Whether the machine is paused, as the hypervisor says. */
  inspect(): Promise<'running' | 'paused'>
  startWorkload(): Promise<void>
  /** A health check of the driver's own, where asking over the network makes no sense. */
  readonly probe?: (signal: AbortSignal) => Promise<boolean>
  /** True when something in the guest accepts TCP connections on the port. */
  listening(port: number): Promise<boolean>
  /**
   * Asks the guest to end, ends it by force after `graceMs`. Resolves when no process is left.
   * @param after `exit`: its program has ended, and nobody needs what it has written; default: it is all on its disks
   */
  stop(graceMs: number, after?: GuestWord): Promise<void>
  /** Ends it at once, without letting a guest that stands still do anything more. */
  kill(): Promise<void>
  pause(): Promise<void>
  resume(): Promise<void>
  stats(): Promise<VmStatistics>
  /** Leaves the guest this much of its memory (null: all); the driver keeps a floor. Capability `balloon`. */
  setBalloon?(targetMib: number | null): Promise<void>
  /** Runs a program in the guest, without a shell. */
  exec?(command: readonly string[], timeoutMs: number): Promise<VmExecAnswer>
  /** Copies what the volume holds at one instant into the file while the guest goes on. Without it the guest stands still. */
  copyDisk?(volumeId: string, target: string): Promise<DiskCopy>
  /** Writes memory, devices and scratch disk into the empty directory; the guest is then as it was. Capability `snapshot`. */
  snapshot?(dir: string): Promise<SnapshotMade>
  /** Shows the file to the guest as a disk and mounts it there. Idempotent. Capability `hotplugDisk`. */
  attachDisk?(disk: DiskSpec, file: string, key?: string): Promise<void>
  /** Its file has become that large: the guest sees it, and its file system grows. Without it, at the VM's next start. */
  growDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>, sizeMib: number): Promise<void>
  /** The guest writes what it has of the disk and holds its file system, for some seconds at most. */
  freezeDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /** It goes on. Idempotent. */
  thawDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /** Unmounts the disk and takes it away. Idempotent. */
  detachDisk?(disk: Pick<DiskSpec, 'volumeId' | 'mountPoint'>): Promise<void>
  /**
   * Moves the VM to where `Arrival.uri` listens. Resolves when it runs there and is stopped here; on failure or abort it
   * runs on here. Capability `migrate`.
   * @param volumes those that it has, where its driver `movesVolumes`
   * @param release awaited before the guest is stopped for the switch; rejects if the VM must stay here
   */
  handOver?(
    uri: string,
    onProgress: (progress: MigrationProgress) => void,
    signal: AbortSignal,
    volumes?: LeavingVolumes,
    release?: () => Promise<void>,
  ): Promise<{ readonly downtimeMs: number }>
  /** Log frames up to `seq` are safe. */
  ack(seq: number): void
  /** Lets go of the VM without touching it: the agent ends, the VM stays. */
  detach(): void
}

/**
 * One hypervisor. What not all of them can do is declared in `capabilities` and an optional method of `RunningVm`; what is
 * false there is answered `unsupported_by_hypervisor`.
 */
export interface Driver {
  readonly name: HypervisorName
  readonly capabilities: Capabilities
  /** Its machines can be given volumes that are LUKS containers, with their key. */
  readonly opensLuks?: boolean
  /** Its machines can be shown `VmHome.drives`. */
  readonly showsDrives?: boolean
  /** Starts from snapshots of VMs that have volumes: `SnapshotSource.disks`. */
  readonly keepsVolumes?: boolean
  /** A machine that is handed over takes its volumes along: `VmHome.arriving`. */
  readonly movesVolumes?: boolean
  /** A machine that is paused can be handed over, and received. */
  readonly movesPaused?: boolean
  /** Starts from snapshots that another host has made. */
  readonly movesSnapshots?: boolean
  /** How guests are connected, for the host's beat. */
  readonly network: string
  /** Whether it works here, and how (`kvm`, `tcg`) or why not. */
  probe(signal: AbortSignal): Promise<{ readonly available: boolean; readonly detail: string }>
  /** Image and network, before there is a process. Idempotent: called again after a failure or before a new boot. */
  prepare(home: VmHome, context: PrepareContext): Promise<Prepared>
  /** What a snapshot made now would say in `madeBy`. */
  snapshotKind?(): Promise<string>
  /** Instead of `boot`: a process that waits for the VM. On failure or abort nothing is left running. */
  receive?(home: VmHome, prepared: Prepared, boot: number, watcher: Watcher, context: PrepareContext): Promise<Arrival>
  /** Resolves when the workload was started, or goes on from `home.from`. On failure or abort nothing is left running. */
  boot(home: VmHome, prepared: Prepared, boot: number, watcher: Watcher, context: PrepareContext): Promise<RunningVm>
  /** Finds a VM that outlived the agent. `fromSeq`: the last log frame that is safe. Undefined: it has gone. */
  adopt(home: VmHome, running: Running, fromSeq: number, watcher: Watcher): Promise<RunningVm | undefined>
  /** What copies volumes of this VM while it runs; undefined: nothing can. */
  copierOf?(vmId: string): DiskCopier | undefined
  /** Gives back all that `prepare` took. Idempotent, also without a successful `prepare`. */
  release(vmId: string, dir: string): Promise<void>
  /** At start, before any VM: removes what belongs to none of `keep`. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  close(): Promise<void>
}
