/**
 * Measures the rate at which random histories of the control plane ("lives") are simulated. Every step runs on a real
 * PostgreSQL, and all invariants are checked after it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import type { Benchmark } from './benchmark.ts'
import { scaled } from './turns.ts'

const lives = 40
const steps = 500

export const simulation: Benchmark = {
  name: 'simulation',
  goal: '5,000 simulated steps per second on one core',
  covers: ['B26'],
  how: 'Runs test/simulation with a fixed number of seeds of 500 steps each, with one process per core, and uses the time that it prints, including its start. A step is a request, a message of a host, or a workflow step, followed by the check of every invariant.',
  reading:
    'Each step is five statements on a real PostgreSQL, invariants included: the round trip to the database limits the rate. The same number of `SELECT 1` by bare node-pg would be 4,900 steps per second and core (decision 0023). A simulated database would be faster but prove less (decision 0023).',
  async run(report) {
    const child = spawn('node_modules/.bin/vitest', ['run', '--project', 'lives'], {
      env: { ...process.env, MOTE_SIMULATION_SEEDS: String(scaled(lives)), MOTE_SIMULATION_STEPS: String(steps) },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
    const [, count, seconds] = /(\d+) lives of \d+ steps in ([\d.]+) s,/.exec(output) ?? []
    if (count === undefined || seconds === undefined)
      throw new Error(`the simulation did not say its time:\n${output.slice(-2000)}`)
    const rate = (Number(count) * steps) / Math.max(1, Number(seconds))
    report.samples('steps, with every invariant after each', '/s', [rate])
    report.atLeast('simulated steps per second', rate, 5000)
  },
}
