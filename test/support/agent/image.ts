import type { PrepareContext } from '../../../src/agent/base/prepare-context.ts'

/** For tests: returns a context for preparing an image that collects log lines in `said` and measures no durations. */
export function context(said: string[] = []): PrepareContext {
  return { time: (_name, step) => step(), say: line => void said.push(line), signal: AbortSignal.timeout(60_000) }
}
