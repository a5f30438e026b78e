import type { DiskObserved, DiskSpec, VmSpec } from '../../contract/agent.ts'
import type { Driver, RunningVm, OpenDisk } from '../hypervisor/driver.ts'
import { networkPlan } from '../net/addresses.ts'
import type { Guard } from '../net/net.ts'
import type { Volumes } from '../volume/volumes.ts'
import { StepError } from '../base/step-error.ts'
import type { VmRecordFile } from './record-file.ts'

export interface AdjusterDeps {
  readonly vmId: string
  readonly dir: string
  readonly driver: Driver
  readonly volumes: Pick<Volumes, 'open' | 'close' | 'adopt'>
  readonly onError: (error: unknown) => void
  readonly guard: Guard
  readonly recordFile: VmRecordFile
  readonly onChange: () => void
}

/** Reconciles the parts of the desired state that can change while the VM runs: firewall, balloon and volumes. */
export class Adjuster {
  readonly #deps: AdjusterDeps
  #done: string | undefined
  #states = new Map<string, DiskObserved>()

  constructor(deps: AdjusterDeps) {
    this.#deps = deps
    for (const disk of deps.recordFile.record.disks ?? []) {
      const { volumeId, generation } = disk
      this.#states.set(volumeId, { volumeId, generation, state: 'attached', error: null })
      deps.volumes.adopt(disk, deps.vmId)
    }
  }

  observed(): DiskObserved[] {
    return [...this.#states.values()]
  }

  /** True if firewall, balloon and volumes of the VM match the spec. */
  isDone(spec: VmSpec): boolean {
    return this.#done === keyOf(spec)
  }

  /** Resets the state of a VM that has stopped, or that is new and has no volumes attached. */
  forget(): void {
    this.#done = undefined
    this.#states = new Map()
    const { recordFile, volumes, vmId, onError } = this.#deps
    // Closing is not awaited, because opening the same volume again waits until it is closed.
    for (const { volumeId } of recordFile.record.disks ?? []) volumes.close(volumeId, vmId).catch(onError)
    recordFile.note({ disks: [] })
  }

  /**
   * Closes the volumes of a VM whose process has exited: first in the driver, which completes their files, then in
   * the volume table. As soon as a volume is closed in the table, its file may be copied to another host.
   */
  async closeVolumes(): Promise<void> {
    await this.#deps.driver.closeVolumes?.(this.#deps.dir)
    this.forget()
  }

  /** Opens the volumes of a VM that is about to start. @throws StepError as `Volumes.open` */
  async open(disks: readonly DiskSpec[]): Promise<OpenDisk[]> {
    const { recordFile, volumes, vmId } = this.#deps
    const opened: OpenDisk[] = []
    for (const disk of disks) {
      opened.push({ disk, ...(await volumes.open(disk, vmId)) })
      await recordFile.save({ disks: opened.map(one => one.disk) })
    }
    return opened
  }

  /**
   * Records the volumes of a VM that arrives from another host, so that they are closed later even if the migration
   * fails.
   */
  async expect(disks: readonly DiskSpec[]): Promise<void> {
    await this.#deps.recordFile.save({ disks: [...disks] })
  }

  /** Reports the volumes as attached, after the VM has arrived from another host. */
  arrived(): void {
    for (const disk of this.#deps.recordFile.record.disks ?? []) this.#report(disk, 'attached', null)
  }

  /**
   * Applies the firewall, balloon and volumes of the spec to the VM.
   * @throws StepError `unsupported_by_hypervisor`, `stale_volume_generation`, or the guest's error
   */
  async adjust(runningVm: RunningVm, spec: VmSpec): Promise<void> {
    const { guard, vmId } = this.#deps
    await guard.guard(vmId, networkPlan(spec)).finally(this.#deps.onChange)
    const { capabilities, name } = this.#deps.driver
    if (capabilities.balloon && runningVm.setBalloon) await runningVm.setBalloon(spec.balloonTargetMib)
    const has = this.#deps.recordFile.record.disks ?? []
    if (has.length + spec.disks.length > 0) {
      if (!capabilities.hotplugDisk)
        throw new StepError('unsupported_by_hypervisor', `${name} cannot attach volumes to a running VM`)
      for (const disk of has) if (!spec.disks.some(wanted => isSame(wanted, disk))) await this.#detach(runningVm, disk)
      for (const disk of spec.disks) await this.#attach(runningVm, disk)
    }
    this.#done = keyOf(spec)
  }

  async #attach(runningVm: RunningVm, disk: DiskSpec): Promise<void> {
    const { recordFile, volumes, vmId } = this.#deps
    const others = (recordFile.record.disks ?? []).filter(one => one.volumeId !== disk.volumeId)
    try {
      if (this.#states.get(disk.volumeId)?.state !== 'attached') this.#report(disk, 'attaching', null)
      const { file, key } = await volumes.open(disk, vmId)
      if (key && !this.#deps.driver.opensLuks)
        throw new StepError('unsupported_by_hypervisor', `${this.#deps.driver.name} does not support encrypted volumes`)
      await recordFile.save({ disks: [...others, disk] })
      await runningVm.attachDisk?.(disk, file, key)
      this.#report(disk, 'attached', null)
    } catch (error) {
      this.#report(disk, 'failed', StepError.of(error).message)
      throw error
    }
  }

  async #detach(runningVm: RunningVm, disk: DiskSpec): Promise<void> {
    const { recordFile, volumes, vmId } = this.#deps
    try {
      this.#report(disk, 'detaching', null)
      await runningVm.detachDisk?.(disk)
      await recordFile.save({ disks: (recordFile.record.disks ?? []).filter(one => one.volumeId !== disk.volumeId) })
      await volumes.close(disk.volumeId, vmId)
      this.#states.delete(disk.volumeId)
      this.#deps.onChange()
    } catch (error) {
      this.#report(disk, 'detaching', StepError.of(error).message)
      throw error
    }
  }

  #report({ volumeId, generation }: DiskSpec, state: DiskObserved['state'], error: string | null): void {
    this.#states.set(volumeId, { volumeId, generation, state, error })
    this.#deps.onChange()
  }
}

/** True if an attachment is unchanged. A volume with another mount point or mode is detached and attached again. */
function isSame(one: DiskSpec, other: DiskSpec): boolean {
  return one.volumeId === other.volumeId && one.mountPoint === other.mountPoint && one.readOnly === other.readOnly
}

function keyOf({ balloonTargetMib, disks, firewall }: VmSpec): string {
  return JSON.stringify([balloonTargetMib, disks, firewall])
}
