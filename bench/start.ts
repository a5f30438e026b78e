/** Measures the start times of `mote up` on a directory that it has used before, and of `mote --version`. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { buildPrograms, programFile } from '../scripts/build.mjs'
import { type Benchmark, median } from './benchmark.ts'
import { inTurns } from './turns.ts'

const rounds = 7
const root = join(import.meta.dirname, '..')
const mote = join(root, 'bin', 'mote')
const timeout = 60_000

async function upMs(dir: string): Promise<number> {
  const began = performance.now()
  const ports = ['--port', '0', '--gateway-port', '0']
  const child = spawn(process.execPath, [programFile(), 'up', '--data', dir, ...ports, '--hypervisor', 'fake'], {
    cwd: root,
    env: { ...process.env, MOTE_CAPTCHA: 'off' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(child, 'exit')
  try {
    let output = ''
    for await (const text of child.stderr.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      output += text
      if (/"api":"http/.test(output)) break
    }
    if (!/"api":"http/.test(output)) throw new Error(`mote up ended before it was up:\n${output.slice(-2000)}`)
    child.stderr.resume()
    return performance.now() - began
  } finally {
    child.kill('SIGTERM')
    await ended
  }
}

async function timed(program: string, args: readonly string[]): Promise<number> {
  const began = performance.now()
  await promisify(execFile)(program, args, { timeout })
  return performance.now() - began
}

export const start: Benchmark = {
  name: 'start',
  goal: 'mote up is ready 1.5 s after its start on an existing data directory; mote --version answers in 100 ms',
  covers: ['start'],
  how: 'Runs the build (npm run build). Measures the start of all programs (private PostgreSQL, control plane, gateway, agent with simulated VMs) until the log has the address of the API, and the start of the command line. This alternates with a Node process that does nothing.',
  reading: 'Both times are CPU: module loading, and the start of PostgreSQL. Compare them with the start of Node.',
  async run(report) {
    await buildPrograms()
    const dir = await mkdtemp(join(tmpdir(), 'mote-bench-'))
    try {
      await upMs(dir)
      const found = await inTurns(rounds, {
        up: () => upMs(dir),
        version: () => timed(mote, ['--version']),
        node: () => timed(process.execPath, ['-e', '0']),
      })
      report.samples('mote up, warm', 'ms', found.up)
      report.samples('mote --version', 'ms', found.version)
      report.samples('bare Node, nothing', 'ms', found.node)
      report.note(
        `in multiples of the start time of bare Node: mote up ${(median(found.up) / median(found.node)).toFixed(1)}, mote --version ${(median(found.version) / median(found.node)).toFixed(1)}`,
      )
      report.verdict('time until mote up is ready (median), s', median(found.up) / 1000, 1.5)
      report.verdict('time of mote --version (median), ms', median(found.version), 100)
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  },
}
