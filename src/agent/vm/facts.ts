import type { VmPut } from '../../contract/agent.ts'
import type { Adjuster } from './adjust.ts'
import type { VmFacts } from './decide.ts'
import { migrationFact } from './migration.ts'
import { isCrashed } from './observe.ts'
import type { VmRecordFile } from './record-file.ts'
import { bootKey } from './record.ts'
import { isRestarted } from './restarts.ts'
import type { Steps } from './steps.ts'
import type { VmProcess } from './vm-process.ts'

interface VmParts {
  readonly desired: VmPut
  readonly recordFile: VmRecordFile
  readonly vmProcess: VmProcess
  readonly adjuster: Adjuster
  readonly steps: Steps
}

/** Collects the facts that `decide` needs. */
export function factsOf({ desired, recordFile, vmProcess, adjuster, steps }: VmParts): VmFacts {
  const { want, spec } = desired
  const { record } = recordFile
  const { runningVm, workload } = vmProcess
  return {
    want,
    workload,
    runningVm: runningVm === undefined ? 'none' : record.paused ? 'paused' : 'running',
    current: bootKey(spec) === record.bootKey,
    crashed: isCrashed(desired, record),
    restartsLeft: isRestarted(spec, record.exitCode) && recordFile.restartsLeft(spec.maxRestarts),
    migration: migrationFact(spec, record),
    adjusted: adjuster.isDone(spec),
    kept: steps.isKept(),
    cleared: steps.cleared,
  }
}
