/** Prints the slowest tests at the end of `npm test`, and makes sure that its exit code is right. */
import type { Reporter, TestCase, TestModule } from 'vitest/node'

const listed = 10

interface Timed {
  readonly name: string
  readonly seconds: number
}

/**
 * Returns the reporter. It sets the exit code to 1 at the start, and to 0 only after a successful run: a setup that
 * fails, or never ends because nothing keeps the process alive, must not look like a success.
 */
export function runReport(): Reporter {
  const timed: Timed[] = []
  return {
    onInit() {
      process.exitCode = 1
    },
    onTestCaseResult(test: TestCase) {
      const ms = test.diagnostic()?.duration ?? 0
      timed.push({ name: `${test.module.relativeModuleId} > ${test.fullName}`, seconds: ms / 1000 })
    },
    onTestRunEnd(_modules: readonly TestModule[], errors: readonly unknown[], reason) {
      if (reason === 'passed' && errors.length === 0) process.exitCode = 0
      process.stdout.write(slowest(timed))
    },
  }
}

function slowest(timed: readonly Timed[]): string {
  const first = timed.toSorted((a, b) => b.seconds - a.seconds).slice(0, listed)
  if (first.length < 2) return ''
  const lines = first.map(({ name, seconds }) => `  ${seconds.toFixed(1).padStart(6)} s  ${name}`)
  return `\nSlowest tests:\n${lines.join('\n')}\n`
}
