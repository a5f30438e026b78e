import { StepError } from '../base/step-error.ts'

/** Tracks in memory which VMs of this host have which volumes open. It is rebuilt at startup from the VM records. */
export interface Holders {
  /**
   * Records that a VM has a volume open.
   * @throws StepError `volume_in_use` if another VM may write to the volume, or if `mode` is `write` and another VM has
   * the volume open
   */
  add(volumeId: string, vmId: string, mode: 'read' | 'write'): void
  /** Records a VM that had the volume open before the agent's restart, without checking for conflicts. */
  note(volumeId: string, vmId: string, mode: 'read' | 'write'): void
  remove(volumeId: string, vmId: string): void
  /** Returns the VMs that have the volume open. */
  of(volumeId: string): readonly string[]
  /** Returns the VM that may write to the volume; undefined if there is none. */
  writer(volumeId: string): string | undefined
}

export function createHolders(): Holders {
  const byVolume = new Map<string, Map<string, 'read' | 'write'>>()
  const held = (volumeId: string) => [...(byVolume.get(volumeId) ?? [])]
  const note: Holders['note'] = (volumeId, vmId, mode) => {
    const holders = byVolume.get(volumeId) ?? new Map<string, 'read' | 'write'>()
    byVolume.set(volumeId, holders.set(vmId, mode))
  }
  return {
    add(volumeId, vmId, mode) {
      const other = held(volumeId).find(([holder, how]) => holder !== vmId && (how === 'write' || mode === 'write'))
      if (other) throw new StepError('volume_in_use', `VM ${other[0]} still has volume ${volumeId}`)
      note(volumeId, vmId, mode)
    },
    note,
    remove(volumeId, vmId) {
      const holders = byVolume.get(volumeId)
      holders?.delete(vmId)
      if (holders?.size === 0) byVolume.delete(volumeId)
    },
    of: volumeId => held(volumeId).map(([vmId]) => vmId),
    writer: volumeId => held(volumeId).find(([, how]) => how === 'write')?.[0],
  }
}
