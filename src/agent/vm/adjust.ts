import type { DiskObserved, DiskSpec, VmSpec } from '../../contract/agent.ts'
import type { Volumes } from '../disk/volumes.ts'
import type { Driver, Machine } from '../hypervisor/driver.ts'
import { StepError } from './errors.ts'
import type { Notebook } from './notebook.ts'

export interface AdjusterDeps {
  readonly driver: Driver
  readonly volumes: Volumes
  readonly notebook: Notebook
  readonly onChange: () => void
}

/** Makes true what may change while the VM runs: the balloon and the volumes. */
export class Adjuster {
  readonly #deps: AdjusterDeps
  #done: string | undefined
  #states = new Map<string, DiskObserved>()

  constructor(deps: AdjusterDeps) {
    this.#deps = deps
    for (const { volumeId, generation } of deps.notebook.record.disks ?? []) {
      this.#states.set(volumeId, { volumeId, generation, state: 'attached', error: null })
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
    this.#deps.notebook.note({ disks: [] })
  }

  /** @throws StepError `unsupported_by_hypervisor`, `stale_volume_generation`, or what the guest said */
  async adjust(machine: Machine, spec: VmSpec): Promise<void> {
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
    const { notebook, volumes } = this.#deps
    const others = (notebook.record.disks ?? []).filter(one => one.volumeId !== disk.volumeId)
    try {
      if (this.#states.get(disk.volumeId)?.state !== 'attached') this.#tell(disk, 'attaching', null)
      const file = await volumes.open(disk)
      await notebook.save({ disks: [...others, disk] })
      await machine.attachDisk?.(disk, file)
      this.#tell(disk, 'attached', null)
    } catch (error) {
      this.#tell(disk, 'failed', StepError.of(error).message)
      throw error
    }
  }

  async #detach(machine: Machine, disk: DiskSpec): Promise<void> {
    const { notebook } = this.#deps
    try {
      this.#tell(disk, 'detaching', null)
      await machine.detachDisk?.(disk)
      await notebook.save({ disks: (notebook.record.disks ?? []).filter(one => one.volumeId !== disk.volumeId) })
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

function keyOf({ balloonTargetMib, disks }: VmSpec): string {
  return JSON.stringify([balloonTargetMib, disks])
}
