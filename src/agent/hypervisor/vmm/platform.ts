import type { Capabilities, HypervisorName } from '../../../contract/agent.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import type { GuestPorts } from '../../guest/ports.ts'
import type { KeptDisk, RunningVm, RawDrive, Running, VmHome } from '../driver.ts'
import type { VmUser } from '../isolation.ts'
import type { GuestMemory } from '../running-vm.ts'
import type { VmmNetwork, VmmProcess } from '../process.ts'
import type { Wire } from '../transfer/wire.ts'
import type { VmmHttp } from '../vmm-http.ts'
import type { VmmCell } from './cell.ts'
import type { Launched, LaunchPlan } from './launch.ts'

/**
 * A VMM with an HTTP API on a unix socket, whose guests talk over vsock: what it does in a way of its own. `vmmDriver`
 * makes a driver of it.
 */
export interface Platform {
  readonly name: HypervisorName
  /** For messages. */
  readonly title: string
  readonly migrate: Capabilities['migrate']
  /** The VMM's own memory, and a part of the disks' cache that need not be fought for. */
  readonly overheadMib: number
  readonly program: VmmProgram
  /** How VMs of this user are kept apart, and what would do it better. */
  traitOf(user: VmUser | undefined): { readonly says: string; readonly fix?: string }
  /** Program and format of its snapshots, with their versions. @throws StepError when it is not installed */
  version(): Promise<string>
  /** A new process in a new cell; whatever an earlier one of this VM left is ended and removed first. */
  start(
    home: Pick<VmHome, 'vmId' | 'dir'>,
    user: VmUser | undefined,
    network: VmmNetwork,
  ): Promise<{ readonly cell: VmmCell; readonly process: VmmProcess }>
  /** Whether the process is the VM's, beyond its id and start time, which after a reboot may be a stranger's. */
  owns(home: VmHome, running: Running): Promise<boolean>
  /** Gives back what `start` took beyond the process. Idempotent. */
  release(vmDir: string): Promise<void>
  /** At start: ends what belongs to none of `keep` and cannot be found by its directory. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  api(vmDir: string): VmmHttp
  /** A call that every VMM answers as soon as it listens. */
  readonly greeting: string
  ports(vmDir: string): GuestPorts
  consoleTail(vmDir: string): Promise<string>
  /** Boots kernel and initramfs of the cell and nothing else. */
  bootProof(api: VmmHttp): Promise<void>
  /** From an empty VMM, whose files are in its cell, to a guest that boots. Its tap is there, and brought afterwards. */
  bootGuest(launched: Launched, guest: GuestPlan): Promise<void>
  /** From an empty VMM to a guest that stands still. */
  loadGuest(launched: Launched, saved: SavedGuest): Promise<void>
  /** @throws Error when it is neither: such a process never became a VM */
  inspect(api: VmmHttp): ReturnType<RunningVm['inspect']>
  /** Idempotent. */
  setPaused(api: VmmHttp, paused: boolean): Promise<void>
  /** Takes a guest from another host; it runs here when this resolves. */
  takeGuest(wire: Wire, plan: LaunchPlan, launched: Launched): Promise<void>
  control(vm: VmContext): VmmControl
  /** Lets go of what it held for this VM. */
  forget?(vmDir: string): void
}

export interface VmmProgram {
  /** Undefined: not installed. */
  readonly file: string | undefined
  /** On the PATH. */
  readonly command: string
  /** Where its releases are. */
  readonly from: string
  /** The setting that names the file. */
  readonly variable: string
  /** The version that the driver was written for and tested with; older ones are refused. */
  readonly tested: string
}

/** A guest of a snapshot, and what it is connected to here. */
export interface SavedGuest {
  /** The snapshot's. */
  readonly dir: string
  readonly tap: string
  /** In the places of those that it has mounted. */
  readonly volumes: readonly KeptDisk[]
}

/** A guest's size and what it is connected to. */
export interface GuestPlan {
  readonly vcpus: number
  readonly memoryMib: number
  readonly tap: string
  readonly mac: string
  /** The n-th is in the cell as `driveFile(n)`. */
  readonly drives: readonly RawDrive[]
}

/** What the parts of one VM have in common. */
export interface VmContext {
  readonly running: Running
  readonly vmId: string
  readonly vmDir: string
  readonly memoryMib: number
  readonly api: VmmHttp
  readonly guest: GuestChannel
  readonly user: VmUser | undefined
  /** For its snapshots: VMM and version, CPU model. */
  readonly madeBy: string
}

/** What is asked of one running VMM. */
export interface VmmControl {
  readMemory(): Promise<GuestMemory>
  /** How much the balloon takes from the guest. */
  setTakenMib(mib: number): Promise<void>
  /** Memory and devices of the paused guest, as files of the agent's own in the empty directory. */
  writeState(dir: string): Promise<void>
  /** The file among them that holds the guest's memory. */
  readonly memoryFile: string
  readonly volumes: VolumeSlots
  readonly handOver: NonNullable<RunningVm['handOver']>
}

/** Disks that come and go while the guest runs. */
export interface VolumeSlots {
  /** The serial by which the guest knows the volume's disk; undefined: it is not there. */
  find(volumeId: string): Promise<string | undefined>
  /** @returns its serial */
  insert(volumeId: string, file: string, readOnly: boolean): Promise<string>
  /** Its file has become that large: the guest's kernel is told so. Idempotent. */
  grow(volumeId: string, sizeMib: number): Promise<void>
  /** The guest has let go of it. Idempotent. */
  remove(volumeId: string): Promise<void>
}
