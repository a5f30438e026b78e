/** Steps of the test of one system. Each has a time limit, a line of output at its end, and an entry in the result. */
export interface StepResult {
  readonly name: string
  readonly seconds: number
}

/** Runs `work` as a named step. @throws the error of the work, or Error on a timeout */
export type Step = <T>(name: string, limitSeconds: number, work: (signal: AbortSignal) => Promise<T>) => Promise<T>

export interface Steps {
  readonly step: Step
  readonly results: readonly StepResult[]
  /** Name of the step in progress, or of the step that failed. */
  current(): string
}

/**
 * Returns a `step` function and the results of its steps.
 * @param all signal that aborts every step
 */
export function openSteps(say: (line: string) => void, all: AbortSignal): Steps {
  const results: StepResult[] = []
  let current = ''
  const step: Step = async (name, limitSeconds, work) => {
    current = name
    const startedMs = performance.now()
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error(`timed out after ${limitSeconds} s`)), limitSeconds * 1000)
    const line = (mark: string) =>
      say(`  ${mark} ${name.padEnd(22)} ${secondsSince(startedMs).toFixed(1).padStart(6)} s`)
    try {
      const result = await work(AbortSignal.any([all, late.signal]))
      results.push({ name, seconds: secondsSince(startedMs) })
      line('ok  ')
      return result
    } catch (cause) {
      line('FAIL')
      throw late.signal.aborted ? late.signal.reason : cause
    } finally {
      clearTimeout(timer)
    }
  }
  return { step, results, current: () => current }
}

export const secondsSince = (startedMs: number) => Math.round((performance.now() - startedMs) / 100) / 10
