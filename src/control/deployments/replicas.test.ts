import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planReplicas, quietMs, type Replica, replacementPauseMs } from './replicas.ts'

const vm = (id: string, change: Partial<Replica> = {}): Replica => ({
  id,
  good: true,
  crashed: false,
  leaving: false,
  ...change,
})

describe('replicas', () => {
  it.each([
    ['makes what is missing', 3, [vm('a')], true, { create: 2, remove: [] }],
    ['gives up what is too much, newest first', 1, [vm('a'), vm('b')], true, { create: 0, remove: ['b'] }],
    [
      'replaces what crashed',
      2,
      [vm('a'), vm('b', { good: false, crashed: true })],
      true,
      { create: 1, remove: ['b'] },
    ],
    ['not before its time', 2, [vm('a'), vm('b', { good: false, crashed: true })], false, { create: 0, remove: [] }],
    ['makes a successor first', 1, [vm('a', { leaving: true })], true, { create: 1, remove: [] }],
    [
      'waits until it is good',
      1,
      [vm('a', { leaving: true }), vm('b', { good: false })],
      true,
      { create: 0, remove: [] },
    ],
    ['then lets go', 1, [vm('a', { leaving: true }), vm('b')], true, { create: 0, remove: ['a'] }],
  ] as const)('%s', (_, desired, vms, mayReplace, wanted) => {
    expect(planReplicas(desired, vms, mayReplace)).toMatchObject(wanted)
  })

  it('empties a host without ever having fewer good ones than before, and comes to rest', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.boolean(), { minLength: 1, maxLength: 6 }),
        (desired, leaves) => {
          let vms = Array.from({ length: desired }, (_, n) =>
            vm(`old-${n}`, { leaving: leaves[n % leaves.length] ?? false }),
          )
          let made = 0
          for (let round = 0; round < 40; round++) {
            const plan = planReplicas(desired, vms, true)
            const left = vms.filter(one => !plan.remove.includes(one.id)).map(one => ({ ...one, good: true }))
            const goodNow = vms.filter(one => one.good && !plan.remove.includes(one.id)).length
            expect(goodNow).toBeGreaterThanOrEqual(desired)
            expect(vms.length).toBeLessThanOrEqual(desired + 1)
            vms = [...left, ...Array.from({ length: plan.create }, () => vm(`new-${made++}`, { good: false }))]
          }
          expect(vms.every(one => !one.leaving && one.good)).toBe(true)
          expect(vms).toHaveLength(desired)
        },
      ),
    )
  })

  it('waits longer with every crash, and forgets them in time', () => {
    expect(replacementPauseMs(0, undefined)).toBe(0)
    expect(replacementPauseMs(1, 0)).toBe(2000)
    expect(replacementPauseMs(30, 0)).toBe(300_000)
    expect(replacementPauseMs(3, 9000)).toBe(0)
    expect(replacementPauseMs(30, quietMs + 1)).toBe(0)
  })
})
