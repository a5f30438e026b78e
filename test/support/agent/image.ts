import type { PrepareContext } from '../../../src/agent/base/prepare-context.ts'

/** For tests: a context that collects the log lines and measures nothing. */
export function context(said: string[] = []): PrepareContext {
  return { time: (_name, step) => step(), say: line => void said.push(line), signal: AbortSignal.timeout(60_000) }
}
