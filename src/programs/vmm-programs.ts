/** Finds the paths of VMM programs in the settings. */
import type { ProgramSettings } from './settings.ts'

/** Returns the paths of the VMM programs; null: the agent searches the program in the PATH. */
export function vmmProgramsOf({ firecrackerBin, jailerBin, cloudHypervisorBin, runscBin }: ProgramSettings): {
  readonly firecracker: string | null
  readonly jailer: string | null
  readonly cloudHypervisor: string | null
  readonly runsc: string | null
} {
  return {
    firecracker: firecrackerBin || null,
    jailer: jailerBin || null,
    cloudHypervisor: cloudHypervisorBin || null,
    runsc: runscBin || null,
  }
}
