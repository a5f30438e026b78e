/** Tests how the guest restarts the programs next to a VM's main program: the guest's code with a simulated clock. */
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

it('the main program gets SIGTERM at the 11th exit of a further program, after pauses of 1 to 30 s', async () => {
  const lines = await exits('always', 3, 0, 20)
  expect(startsIn(lines)).toEqual([0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181])
  expect(lines.filter(line => /it starts again/.test(line))).toHaveLength(10)
  expect(lines.slice(-3)).toEqual([
    `signal ${SIGTERM} to -7`,
    "worker ended with code 3 for the 11th time: the VM's program is ended, too",
    'no further start',
  ])
})

it('with restart "always", an exit with code 0 counts like a failure', async () => {
  const lines = await exits('always', 0, 1, 20)
  expect(startsIn(lines)).toHaveLength(11)
  expect(lines).toContain(`signal ${SIGTERM} to -7`)
})

it('a run of ten minutes resets the count of exits and the pause before a restart', async () => {
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
] as const)(
  'with restart %s, an exit with code %i causes no restart, and the VM continues',
  async ([restart, code]) => {
    expect(await exits(restart, code, 0, 20)).toEqual([
      'starts at 0 s',
      `worker ended with code ${code}`,
      'no further start',
    ])
  },
)
