import type { VmStep } from '../../contract/agent.ts'
import type { PrepareContext } from '../base/prepare-context.ts'

/**
 * Creates the context that a driver uses in its steps. Each timed step is reported to `onStep` when it has finished.
 */
export function stepContext(
  say: (line: string) => void,
  onStep: (step: VmStep) => void,
  signal: AbortSignal,
): PrepareContext {
  return {
    signal,
    say,
    time: async (name, step) => {
      const startedMs = performance.now()
      const result = await step()
      onStep(timedStep(name, performance.now() - startedMs))
      return result
    },
  }
}

export function timedStep(name: string, ms: number): VmStep {
  return { name, ms: Math.round(ms * 10) / 10 }
}
