import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planReplicas, quietMs, type Replica, replacementPauseMs } from './replicas.ts'

const vm = (id: string, change: Partial<Replica> = {}): Replica => ({
  id,
  good: true,
  crashed: false,
  leaving: false,
  movable: false,
  moving: false,
  ...change,
})

describe("the planning of a deployment's VMs", () => {
  it.each([
    ['creates missing VMs', 3, [vm('a')], true, { create: 2, remove: [] }],
    ['removes surplus VMs, newest first', 1, [vm('a'), vm('b')], true, { create: 0, remove: ['b'] }],
    ['replaces crashed VMs', 2, [vm('a'), vm('b', { good: false, crashed: true })], true, { create: 1, remove: ['b'] }],
    [
      'delays the replacement during the back-off',
      2,
      [vm('a'), vm('b', { good: false, crashed: true })],
      false,
      { create: 0, remove: [] },
    ],
    [
      'creates a successor before a VM leaves its host',
      1,
      [vm('a', { leaving: true })],
      true,
      { create: 1, remove: [] },
    ],
    [
      'waits until the successor is good',
      1,
      [vm('a', { leaving: true }), vm('b', { good: false })],
      true,
      { create: 0, remove: [] },
    ],
    ['moves a VM that can be moved', 1, [vm('a', { leaving: true, movable: true })], true, { create: 0, move: ['a'] }],
    [
      'moves one VM at a time',
      2,
      [vm('a', { leaving: true, movable: true }), vm('b', { leaving: true, movable: true, moving: true })],
      true,
      { create: 0, remove: [], move: [] },
    ],
    [
      'replaces a movable VM that is unhealthy',
      1,
      [vm('a', { leaving: true, movable: true, good: false })],
      true,
      { create: 1, remove: [], move: [] },
    ],
    [
      'removes surplus VMs before it moves them',
      1,
      [vm('a', { leaving: true, movable: true }), vm('b')],
      true,
      { create: 0, remove: ['a'], move: [] },
    ],
    [
      'removes the leaving VM once its successor is good',
      1,
      [vm('a', { leaving: true }), vm('b')],
      true,
      { create: 0, remove: ['a'] },
    ],
  ] as const)('%s', (_, desired, vms, mayReplace, wanted) => {
    expect(planReplicas(desired, vms, mayReplace)).toMatchObject(wanted)
  })

  it('never has fewer healthy VMs than desired while a host is drained, and reaches a steady state', () => {
    const kinds = fc.constantFrom('stays', 'leaves', 'moves', 'moves fail')
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.array(kinds, { minLength: 1, maxLength: 6 }), (desired, each) => {
        const kindOf = (n: number) => each[n % each.length]
        let vms = Array.from({ length: desired }, (_, n) =>
          vm(`old-${n}`, { leaving: kindOf(n) !== 'stays', movable: kindOf(n)?.startsWith('moves') ?? false }),
        )
        let made = 0
        for (let round = 0; round < 60; round++) {
          const plan = planReplicas(desired, vms, true)
          const goodNow = vms.filter(one => one.good && !plan.remove.includes(one.id)).length
          expect(goodNow).toBeGreaterThanOrEqual(desired)
          expect(vms.length).toBeLessThanOrEqual(desired + 1)
          expect(vms.filter(one => one.moving).length + plan.move.length).toBeLessThanOrEqual(1)
          const settled = vms.map(one =>
            !one.moving
              ? { ...one, good: true, moving: plan.move.includes(one.id) }
              : kindOf(Number(one.id.slice(4))) === 'moves fail'
                ? { ...one, moving: false, movable: false }
                : { ...one, moving: false, leaving: false },
          )
          const left = settled.filter(one => !plan.remove.includes(one.id))
          vms = [...left, ...Array.from({ length: plan.create }, () => vm(`new-${made++}`, { good: false }))]
        }
        expect(vms.every(one => !one.leaving && one.good)).toBe(true)
        expect(vms).toHaveLength(desired)
      }),
    )
  })

  it('waits longer after every replacement of a crashed VM, and ignores earlier ones after a quiet period', () => {
    expect(replacementPauseMs(0, undefined)).toBe(0)
    expect(replacementPauseMs(1, 0)).toBe(2000)
    expect(replacementPauseMs(30, 0)).toBe(300_000)
    expect(replacementPauseMs(3, 9000)).toBe(0)
    expect(replacementPauseMs(30, quietMs + 1)).toBe(0)
  })
})
