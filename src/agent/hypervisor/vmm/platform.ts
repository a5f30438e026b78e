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
 * The parts of a driver that differ between VMMs with an HTTP API on a unix socket, whose guests use vsock. `vmmDriver`
 * builds the driver.
 */
export interface Platform {
  readonly name: HypervisorName
  /** Name of the VMM in messages. */
  readonly title: string
  readonly migrate: Capabilities['migrate']
  /** Memory that a VM's cgroup has in addition to the guest's: the VMM's own, and page cache for the disks. */
  readonly overheadMib: number
  readonly program: VmmProgram
  /** Describes how VMs with this user are isolated, and how to improve that. */
  traitOf(user: VmUser | undefined): { readonly says: string; readonly fix?: string }
  /** Returns the versions of the program and of its snapshot format. @throws StepError if it is not installed */
  version(): Promise<string>
  /** Starts a process in a new jail directory (`VmmCell`). Before that, kills an earlier process of this VM. */
  start(
    home: Pick<VmHome, 'vmId' | 'dir'>,
    user: VmUser | undefined,
    network: VmmNetwork,
  ): Promise<{ readonly cell: VmmCell; readonly process: VmmProcess }>
  /** Checks that the process is the VM's. After a reboot, an unrelated process may have the same pid and start time. */
  owns(home: VmHome, running: Running): Promise<boolean>
  /** Releases what `start` has created, except for the process. Idempotent. */
  release(vmDir: string): Promise<void>
  /** Called at the agent's start: kills VMMs of VMs not in `keep` that cannot be found by their working directory. */
  reclaim(keep: ReadonlySet<string>): Promise<void>
  api(vmDir: string): VmmHttp
  /** Path of an API call that the VMM answers as soon as it listens. */
  readonly greeting: string
  ports(vmDir: string): GuestPorts
  consoleTail(vmDir: string): Promise<string>
  /** Boots the kernel and initramfs in the jail directory without any device, as a test boot. */
  bootProof(api: VmmHttp): Promise<void>
  /**
   * Configures a started VMM, whose files are in its jail directory, and boots the guest. The VM's tap exists already;
   * the caller moves it to the host later.
   */
  bootGuest(launched: Launched, guest: GuestPlan): Promise<void>
  /** Loads a saved guest into a started VMM. The guest stays paused. */
  loadGuest(launched: Launched, saved: SavedGuest): Promise<void>
  /** Reads whether the VM runs or is paused. @throws Error if it is in another state */
  inspect(api: VmmHttp): ReturnType<RunningVm['inspect']>
  /** Pauses or resumes the VM. Idempotent. */
  setPaused(api: VmmHttp, paused: boolean): Promise<void>
  /** Receives a guest from another host. Resolves when it runs on this host. */
  takeGuest(wire: Wire, plan: LaunchPlan, launched: Launched): Promise<void>
  control(vm: VmContext): VmmControl
  /** Releases what the agent has in memory for a VM that has ended. */
  forget?(vmDir: string): void
}

export interface VmmProgram {
  /** Absolute path of the program; undefined if it is not installed. */
  readonly file: string | undefined
  /** Name of the program on the PATH. */
  readonly command: string
  /** Web address of the program's releases. */
  readonly from: string
  /** Name of the environment variable that sets the program's path. */
  readonly variable: string
  /** The version for which the driver is written and tested. Older versions are refused. */
  readonly tested: string
}

/** A guest in a snapshot, and its tap and volumes on this host. */
export interface SavedGuest {
  /** Directory of the snapshot. */
  readonly dir: string
  readonly tap: string
  /** Volumes that take the place of those that the saved guest has mounted. */
  readonly volumes: readonly KeptDisk[]
}

/** Size and devices of a guest. */
export interface GuestPlan {
  readonly vcpus: number
  readonly memoryMib: number
  readonly tap: string
  readonly mac: string
  /** The n-th drive is the file `driveFile(n)` in the jail directory. */
  readonly drives: readonly RawDrive[]
}

/** The values that all operations on a running VM need. */
export interface VmContext {
  readonly running: Running
  readonly vmId: string
  readonly vmDir: string
  readonly memoryMib: number
  readonly api: VmmHttp
  readonly guest: GuestChannel
  readonly user: VmUser | undefined
  /** The `madeBy` of snapshots of this VM. */
  readonly madeBy: string
}

/** Operations on one running VMM. */
export interface VmmControl {
  readMemory(): Promise<GuestMemory>
  /** Sets how much memory the balloon takes away from the guest. */
  setTakenMib(mib: number): Promise<void>
  /** Writes memory and devices of the paused guest to the empty directory, as files that the agent owns. */
  writeState(dir: string): Promise<void>
  /** Name of the file with the guest's memory in a snapshot. */
  readonly memoryFile: string
  readonly volumes: VolumeSlots
  readonly handOver: NonNullable<RunningVm['handOver']>
}

/** The volumes of a VM: disks that are attached and detached while the guest runs. */
export interface VolumeSlots {
  /** Returns the serial of the volume's disk in the guest; undefined if it is not attached. */
  find(volumeId: string): Promise<string | undefined>
  /** Attaches the volume. @returns the serial of its disk */
  insert(volumeId: string, file: string, readOnly: boolean): Promise<string>
  /** Makes the guest's kernel see the new size of the volume's file. Idempotent. */
  grow(volumeId: string, sizeMib: number): Promise<void>
  /** Detaches a volume that the guest has unmounted. Idempotent. */
  remove(volumeId: string): Promise<void>
}
