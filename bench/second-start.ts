/**
 * Measures the time from the second start of the demo to the first response of its VM, when kernel, image and database
 * already exist.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Benchmark } from './benchmark.ts'
import { missingForVms } from './deploy-to-answer.ts'

const rounds = 3

async function demo(dir: string): Promise<number> {
  const args = ['src/cli/main.ts', 'demo', '--once', '--data', dir, '--port', '0', '--gateway-port', '0']
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { timeout: 300_000 })
  const seconds = /([\d.]+) s from the command to the answer/.exec(stdout + stderr)?.[1]
  if (seconds === undefined) throw new Error(`the demo did not say how long it took:\n${stdout}`)
  return Number(seconds) * 1000
}

export const secondStart: Benchmark = {
  name: 'second-start',
  goal: 'the second demo answers at most 15 s after the command',
  unable: missingForVms,
  async run(report) {
    const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
    try {
      const first = await demo(dir)
      report.samples('first demo on this data directory', 'ms', [first])
      const times: number[] = []
      for (let i = 0; i < rounds; i++) times.push(await demo(dir))
      report.verdict(
        "time from the command of the second demo to the app's answer (median), s",
        report.samples('second demo', 'ms', times).median / 1000,
        15,
      )
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  },
}
