import type { DiskObserved, DiskSpec, VmSpec } from '../../contract/agent.ts'
import type { Driver, Machine, OpenDisk } from '../hypervisor/driver.ts'
import { networkPlan } from '../net/addresses.ts'
import type { Guard } from '../net/net.ts'
import type { Volumes } from '../volume/volumes.ts'
import { StepError } from './errors.ts'
import type { Notebook } from './notebook.ts'

export interface AdjusterDeps {
  readonly vmId: string
  readonly driver: Driver
  readonly volumes: Pick<Volumes, 'open' | 'close' | 'adopt'>
  readonly onError: (error: unknown) => void
  readonly guard: Guard
  readonly notebook: Notebook
  readonly onChange: () => void
}

/** Makes true what may change while the VM runs: the firewall, the balloon and the volumes. */
export class Adjuster {
  readonly #deps: AdjusterDeps
  #done: string | undefined
  #states = new Map<string, DiskObserved>()

  constructor(deps: AdjusterDeps) {
    this.#deps = deps
    for (const disk of deps.notebook.record.disks ?? []) {
      const { volumeId, generation } = disk
      this.#states.set(volumeId, { volumeId, generation, state: 'attached', error: null })
      deps.volumes.adopt(disk, deps.vmId)
    }
  }

  observed(): DiskObserved[] {
    return [...this.#states.values()]
  }

  /** The machine has what the spec wants. */
  isDone(spec: VmSpec): boolean {
    return this.#done === keyOf(spec)
  }

  /** The machine has gone, or is a new one that nothing was attached to. */
  forget(): void {
    this.#done = undefined
    this.#states = new Map()
    const { notebook, volumes, vmId, onError } = this.#deps
    // Whoever opens one of them next comes after this.
    for (const { volumeId } of notebook.record.disks ?? []) volumes.close(volumeId, vmId).catch(onError)
    notebook.note({ disks: [] })
  }

  /** Opens the volumes for a machine that does not exist yet. @throws StepError as `Volumes.open` */
  async open(disks: readonly DiskSpec[]): Promise<OpenDisk[]> {
    const { notebook, volumes, vmId } = this.#deps
    const opened: OpenDisk[] = []
    for (const disk of disks) {
      opened.push({ disk, ...(await volumes.open(disk, vmId)) })
      await notebook.save({ disks: opened.map(one => one.disk) })
    }
    return opened
  }

  /** They are open for a machine that comes from another host with them: whatever becomes of it closes them. */
  async expect(disks: readonly DiskSpec[]): Promise<void> {
    await this.#deps.notebook.save({ disks: [...disks] })
  }

  /** The machine has come with what it had. */
  arrived(): void {
    for (const disk of this.#deps.notebook.record.disks ?? []) this.#tell(disk, 'attached', null)
  }

  /** @throws StepError `unsupported_by_hypervisor`, `stale_volume_generation`, or what the guest said */
  async adjust(machine: Machine, spec: VmSpec): Promise<void> {
    const { guard, vmId } = this.#deps
    await guard.guard(vmId, networkPlan(spec)).finally(this.#deps.onChange)
    const { capabilities, name } = this.#deps.driver
    if (capabilities.balloon && machine.setBalloon) await machine.setBalloon(spec.balloonTargetMib)
    const has = this.#deps.notebook.record.disks ?? []
    if (has.length + spec.disks.length > 0) {
      if (!capabilities.hotplugDisk) throw new StepError('unsupported_by_hypervisor', `${name} has no runtime volumes`)
      for (const disk of has) if (!spec.disks.some(wanted => isSame(wanted, disk))) await this.#detach(machine, disk)
      for (const disk of spec.disks) await this.#attach(machine, disk)
    }
    this.#done = keyOf(spec)
  }

  async #attach(machine: Machine, disk: DiskSpec): Promise<void> {
    const { notebook, volumes, vmId } = this.#deps
    const others = (notebook.record.disks ?? []).filter(one => one.volumeId !== disk.volumeId)
    try {
      if (this.#states.get(disk.volumeId)?.state !== 'attached') this.#tell(disk, 'attaching', null)
      const { file, key } = await volumes.open(disk, vmId)
      if (key && !this.#deps.driver.opensLuks)
        throw new StepError('unsupported_by_hypervisor', `${this.#deps.driver.name} cannot have encrypted volumes`)
      await notebook.save({ disks: [...others, disk] })
      await machine.attachDisk?.(disk, file, key)
      this.#tell(disk, 'attached', null)
    } catch (error) {
      this.#tell(disk, 'failed', StepError.of(error).message)
      throw error
    }
  }

  async #detach(machine: Machine, disk: DiskSpec): Promise<void> {
    const { notebook, volumes, vmId } = this.#deps
    try {
      this.#tell(disk, 'detaching', null)
      await machine.detachDisk?.(disk)
      await notebook.save({ disks: (notebook.record.disks ?? []).filter(one => one.volumeId !== disk.volumeId) })
      await volumes.close(disk.volumeId, vmId)
      this.#states.delete(disk.volumeId)
      this.#deps.onChange()
    } catch (error) {
      this.#tell(disk, 'detaching', StepError.of(error).message)
      throw error
    }
  }

  #tell({ volumeId, generation }: DiskSpec, state: DiskObserved['state'], error: string | null): void {
    this.#states.set(volumeId, { volumeId, generation, state, error })
    this.#deps.onChange()
  }
}

/** A volume that changed its place or its mode is taken away and comes back. */
function isSame(one: DiskSpec, other: DiskSpec): boolean {
  return one.volumeId === other.volumeId && one.mountPoint === other.mountPoint && one.readOnly === other.readOnly
}

function keyOf({ balloonTargetMib, disks, firewall }: VmSpec): string {
  return JSON.stringify([balloonTargetMib, disks, firewall])
}
