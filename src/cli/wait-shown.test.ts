import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createTerminal } from './progress.ts'
import { waitShown } from './wait-shown.ts'

/** All modules of the CLI with timers, and how each of them shows the user what it waits for. */
const others: Readonly<Record<string, string>> = {
  'commands/database-connect.ts': 'polls a port of this computer in the step "Opening the tunnel"',
  'commands/vm-session.ts': 'redraws a table',
  'demo/deploy.ts': 'a step of the demo',
  'demo/git.ts': 'a step of the demo',
  'demo/run.ts': 'runs until Ctrl-C, and says so',
  'follow.ts': 'waits in a step that also shows the log',
  'log-stream.ts': 'ends the output of past lines',
  'progress.ts': 'draws the steps',
  'removal.ts': 'waits in the step "Deleting …"',
  'wait-shown.ts': 'the wait that shows what it waits for',
  'watch.ts': 'prints again every two seconds',
}

it('every module of the CLI with a timer is listed with the way in which it shows the wait to the user', () => {
  const folder = import.meta.dirname
  const found = globSync('**/*.ts', { cwd: folder })
    .filter(file => !file.endsWith('.test.ts'))
    .filter(file =>
      /\bset(Timeout|Interval|Immediate)\(|timers\/promises|\bwaitMs\b/.test(readFileSync(join(folder, file), 'utf8')),
    )
  expect(found.toSorted()).toEqual(Object.keys(others).toSorted())
})

it('waitShown shows the wait as a step and returns the first value that it finds', async () => {
  const steps: string[] = []
  const terminal = {
    ...createTerminal(),
    step: <T>(what: string, work: (report: () => void) => Promise<T>) => (steps.push(what), work(() => undefined)),
  }
  const call = { terminal, signal: new AbortController().signal }
  const answers = [undefined, undefined, 'done']
  expect(await waitShown(call, { what: 'Waiting', everyMs: 1 }, async () => answers.shift())).toBe('done')
  expect([steps, answers]).toEqual([['Waiting'], []])
})

it('waitShown ends immediately on Ctrl-C', async () => {
  const stop = new AbortController()
  const call = { terminal: createTerminal(), signal: stop.signal }
  const wait = waitShown(call, { what: 'Waiting', everyMs: 3_600_000 }, async () =>
    stop.abort(new Error('Interrupted.')),
  )
  await expect(wait).rejects.toThrow('Interrupted.')
})
