/** Restarts of the programs beside the program of a VM, in the guest's own code on a clock of the test. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { run } from '../../lib/exec.ts'
import { compileStatic } from './init.ts'

let dir: Awaited<ReturnType<typeof testDir>>
let program = ''
beforeAll(async () => {
  dir = await testDir()
  program = join(dir.path, 'programs')
  await compileStatic(program, [
    fileURLToPath(new URL('../../../test/support/agent/guest-programs.c', import.meta.url)),
  ])
}, 60_000)
afterAll(() => dir[Symbol.asyncDispose]())

const exits = async (restart: string, code: number, seconds: number, count: number) =>
  (await run(program, [restart, code, seconds, count].map(String))).trim().split('\n')
const startsIn = (lines: readonly string[]) =>
  lines.flatMap(line => /^starts at (\d+) s$/.exec(line)?.[1] ?? []).map(Number)
const SIGTERM = 15

it('a program that fails eleven times ends the program of the VM, after ten pauses of 1 to 30 seconds', async () => {
  const lines = await exits('always', 3, 0, 20)
  expect(startsIn(lines)).toEqual([0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181])
  expect(lines.filter(line => /it starts again/.test(line))).toHaveLength(10)
  expect(lines.slice(-3)).toEqual([
    `signal ${SIGTERM} to -7`,
    "worker ended with code 3 for the 11th time: the VM's program is ended, too",
    'no further start',
  ])
})

it('a success counts as well if it is always restarted', async () => {
  const lines = await exits('always', 0, 1, 20)
  expect(startsIn(lines)).toHaveLength(11)
  expect(lines).toContain(`signal ${SIGTERM} to -7`)
})

it('a run of ten minutes starts the count and the pauses anew', async () => {
  const lines = await exits('on-failure', 1, 600, 30)
  expect(startsIn(lines)).toHaveLength(31)
  expect(lines.filter(line => /it starts again/.test(line)).every(line => line.endsWith('in 1 s'))).toBe(true)
  const shorter = await exits('on-failure', 1, 599, 30)
  expect(startsIn(shorter)).toHaveLength(11)
})

it.for([
  ['on-failure', 0],
  ['never', 0],
  ['never', 1],
] as const)('with %s, one that ends with %i is not started again, and the VM runs on', async ([restart, code]) => {
  expect(await exits(restart, code, 0, 20)).toEqual([
    'starts at 0 s',
    `worker ended with code ${code}`,
    'no further start',
  ])
})
