import { expect, test } from 'vitest'
import type { VmWant } from '../../contract/agent.ts'
import { decide, type VmAction, type VmFacts } from './decide.ts'

const wants: VmWant[] = ['running', 'paused', 'stopped', 'absent']
const flags = [true, false]
const every: VmFacts[] = wants.flatMap(want =>
  (['none', 'running', 'paused'] as const).flatMap(machine =>
    (['running', 'exited'] as const).flatMap(workload =>
      flags.flatMap(current =>
        flags.flatMap(crashed =>
          flags.map(restartsLeft => ({ want, machine, workload, current, crashed, restartsLeft })),
        ),
      ),
    ),
  ),
)

/** What each action makes true, so that following the decisions can be played through. */
function perform(facts: VmFacts, action: VmAction): VmFacts {
  const effects = {
    release: {},
    rest: {},
    stop: { machine: 'none' },
    boot: { machine: 'running', workload: 'running', current: true },
    restart: { workload: 'running' },
    crash: { crashed: true },
    pause: { machine: 'paused' },
    resume: { machine: 'running' },
  } as const satisfies Record<VmAction, Partial<VmFacts>>
  return { ...facts, ...effects[action] }
}

test.each(every)(
  'from $want $machine $workload current=$current crashed=$crashed left=$restartsLeft the wish comes true',
  start => {
    let facts = start
    const taken: VmAction[] = []
    for (let action = decide(facts); action !== 'rest' && action !== 'release'; action = decide(facts)) {
      taken.push(action)
      expect(taken.length).toBeLessThan(6)
      facts = perform(facts, action)
    }
    const goal = { running: 'running', paused: 'paused', stopped: 'none', absent: 'none' } as const
    expect(facts.machine).toBe(facts.crashed && !start.crashed ? 'none' : start.crashed ? 'none' : goal[facts.want])
    if (facts.want === 'absent') expect(decide(facts)).toBe('release')
    if (facts.want === 'absent' || facts.want === 'stopped') expect(taken).not.toContain('boot')
    if (start.crashed) expect(taken.filter(action => action !== 'stop')).toEqual([])
  },
)
