/** Paths of VMMs in the settings of the programs. */
import type { ProgramSettings } from './settings.ts'

/** Files of VMMs; null: looked for on the PATH. */
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
