/**
 * Appends a line of JSON for each test file to the file that MOTE_TEST_CPU names: CPU seconds of the test process, and
 * of its child processes that have exited. The shared PostgreSQL server, and programs that outlive the test file, are
 * not included.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { afterAll, expect } from 'vitest'

/** USER_HZ, which is 100 on x86 and ARM. */
const ticksPerSecond = 100

/**
 * Returns the CPU seconds of this process and its exited children: utime, stime, cutime and cstime (proc_pid_stat(5)).
 */
function cpuSeconds() {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? []
  const [user = 0, system = 0, ofChildren = 0, systemOfChildren = 0] = fields.slice(11, 15).map(Number)
  return { own: (user + system) / ticksPerSecond, children: (ofChildren + systemOfChildren) / ticksPerSecond }
}

const startedAt = performance.now()
// CPU time that the process has used for earlier test files, to be subtracted.
const before = cpuSeconds()
const file = process.env['MOTE_TEST_CPU'] ?? ''
// This hook runs after those of the test file, because it is in a setup file.
afterAll(() => {
  const now = cpuSeconds()
  const own = Math.round((now.own - before.own) * 100) / 100
  const children = Math.round((now.children - before.children) * 100) / 100
  const name = relative(process.cwd(), expect.getState().testPath ?? '')
  const seconds = (performance.now() - startedAt) / 1000
  appendFileSync(file, `${JSON.stringify({ name, own, children, seconds: Math.round(seconds * 10) / 10 })}\n`)
})
