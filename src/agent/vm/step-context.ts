import type { VmStep } from '../../contract/agent.ts'
import type { PrepareContext } from '../base/prepare-context.ts'

/** What a driver's steps report to: each timed step goes to `onStep` when it is done. */
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
