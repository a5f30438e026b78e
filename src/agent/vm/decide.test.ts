import { expect, test } from 'vitest'
import type { VmWant } from '../../contract/agent.ts'
import { decide, type VmAction, type VmFacts } from './decide.ts'

const wants: VmWant[] = ['running', 'paused', 'stopped', 'absent']
const flags = [true, false]
const migrations = ['none', 'incoming', 'outgoing', 'left'] as const
const every: VmFacts[] = wants.flatMap(want =>
  (['none', 'running', 'paused'] as const).flatMap(runningVm =>
    (['running', 'exited'] as const).flatMap(workload =>
      flags.flatMap(current =>
        flags.flatMap(crashed =>
          flags.flatMap(restartsLeft =>
            flags.flatMap(adjusted =>
              migrations.map(migration => ({
                want,
                runningVm,
                workload,
                current,
                crashed,
                restartsLeft,
                adjusted,
                migration,
                kept: false,
                cleared: false,
              })),
            ),
          ),
        ),
      ),
    ),
  ),
)

/** Applies the effect of an action to the facts, so that the test can follow a sequence of decisions. */
function perform(facts: VmFacts, action: VmAction): VmFacts {
  const effects = {
    release: {},
    rest: {},
    stop: { runningVm: 'none' },
    boot: { runningVm: 'running', workload: 'running', current: true, adjusted: false },
    receive: { runningVm: 'running', workload: 'running', current: true, adjusted: false, migration: 'none' },
    'hand-over': { runningVm: 'none', migration: 'left' },
    adjust: { adjusted: true },
    restart: { workload: 'running' },
    clear: { cleared: true },
    crash: { crashed: true },
    pause: { runningVm: 'paused' },
    resume: { runningVm: 'running' },
  } as const satisfies Record<VmAction, Partial<VmFacts>>
  return { ...facts, ...effects[action] }
}

test.each(every)(
  'the desired state is reached: want=$want VM=$runningVm workload=$workload current=$current crashed=$crashed left=$restartsLeft adjusted=$adjusted migration=$migration',
  start => {
    let facts = start
    const taken: VmAction[] = []
    for (let action = decide(facts); action !== 'rest' && action !== 'release'; action = decide(facts)) {
      taken.push(action)
      expect(taken.length).toBeLessThan(6)
      facts = perform(facts, action)
    }
    const goal = { running: 'running', paused: 'paused', stopped: 'none', absent: 'none' } as const
    const nowhere = facts.crashed || facts.migration === 'left'
    expect(facts.runningVm).toBe(nowhere ? 'none' : goal[facts.want])
    const begun = taken.filter(action => action !== 'stop' && action !== 'clear')
    if (start.migration === 'left') expect(begun).toEqual([])
    // A VM without a process ends up cleared. A deleted VM ends up released, which includes clearing it.
    if (facts.runningVm === 'none' && facts.want !== 'absent') expect(facts.cleared).toBe(true)
    if (facts.runningVm === 'running') expect(facts.adjusted).toBe(true)
    if (facts.want === 'absent') expect(decide(facts)).toBe('release')
    if (facts.want === 'absent' || facts.want === 'stopped') expect(taken).not.toContain('boot')
    if (start.crashed) expect(begun).toEqual([])
  },
)

test.each(every)(
  'a VM whose volumes a snapshot depends on never runs: want=$want VM=$runningVm workload=$workload current=$current crashed=$crashed migration=$migration',
  start => {
    let facts: VmFacts = { ...start, kept: true }
    for (let n = 0, action = decide(facts); action !== 'rest' && action !== 'release'; action = decide(facts)) {
      expect(['stop', 'clear']).toContain(action)
      expect((n += 1)).toBeLessThan(3)
      facts = perform(facts, action)
    }
  },
)
