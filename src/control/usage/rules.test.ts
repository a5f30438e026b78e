import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { type BudgetState, budgetState, costCents, estimateCents, gbMonths, monthOf } from './rules.ts'

const prices = { vcpuHour: 2, gibHour: 1, storageGbMonth: 10, egressGb: 5 }

describe('prices', () => {
  it('are charged per vCPU hour, GiB hour of memory, GB month of storage, and GB of egress', () => {
    const nothing = { vcpuSeconds: 0, memoryMibSeconds: 0, storageMibSeconds: 0, egressBytes: 0 }
    expect(costCents({ ...nothing, vcpuSeconds: 3600 * 3 }, prices)).toBeCloseTo(6)
    expect(costCents({ ...nothing, memoryMibSeconds: 512 * 7200 }, prices)).toBeCloseTo(1)
    expect(costCents({ ...nothing, egressBytes: 2e9 }, prices)).toBeCloseTo(10)
    const storageMibSeconds = (1e9 / 2 ** 20) * 30 * 86_400
    expect(gbMonths(storageMibSeconds)).toBeCloseTo(1)
    expect(costCents({ ...nothing, storageMibSeconds }, prices)).toBeCloseTo(10)
  })
})

test.each([
  ['2026-12-31T23:59:59Z', undefined, '2026-12-01', '2027-01-01'],
  ['2026-12-31T23:59:59Z', '2024-02', '2024-02-01', '2024-03-01'],
])('at %s, a request for the month %s covers %s to %s', (now, text, from, to) => {
  const month = monthOf(new Date(now), text)
  expect([month.from, month.to].map(one => one.toISOString().slice(0, 10))).toEqual([from, to])
})

test("the estimated cost of a month extrapolates the cost so far, except in the month's first hour", () => {
  const month = monthOf(new Date('2026-06-11T00:00:00Z'))
  expect(estimateCents(100, month, new Date('2026-06-11T00:00:00Z'))).toBeCloseTo(300)
  expect(estimateCents(5, month, new Date('2026-06-01T00:30:00Z'))).toBe(5)
  expect(estimateCents(100, month, new Date('2026-08-01T00:00:00Z'))).toBeCloseTo(100)
})

describe('a budget', () => {
  const at = new Date('2026-06-11T00:00:00Z')
  const graceMs = 3_600_000
  const next = (cost: number, state: BudgetState, sinceMs = 0) =>
    budgetState({ costCents: cost, budgetCents: 100, state, changedAt: new Date(at.getTime() - sinceMs) }, at, graceMs)

  test.each([
    [0, 'fine', 0, 'fine'],
    [79, 'fine', 0, 'fine'],
    [80, 'fine', 0, 'warned'],
    [100, 'warned', 0, 'grace'],
    [100, 'grace', graceMs - 1, 'grace'],
    [100, 'grace', graceMs, 'capped'],
    [500, 'capped', 0, 'capped'],
    [50, 'capped', 0, 'fine'],
    [90, 'capped', 0, 'warned'],
  ] as const)(
    'of 100 cents, with a cost of %s cents and in the state %s for %s ms, gets the state %s',
    (cost, state, since, wanted) => expect(next(cost, state, since)).toBe(wanted),
  )

  it('of zero caps the project at once if there is no grace period', () => {
    expect(budgetState({ costCents: 0, budgetCents: 0, state: 'fine', changedAt: at }, at, 0)).toBe('capped')
  })

  it('never caps the project before the grace period has passed', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 1, max: 7_200_000 })), { maxLength: 30 }),
        steps => {
          let state: BudgetState = 'fine'
          let changedAt = at
          let now = at
          for (const [cost, passed] of steps) {
            now = new Date(now.getTime() + passed)
            const then = budgetState({ costCents: cost, budgetCents: 100, state, changedAt }, now, graceMs)
            if (then === 'capped' && state !== 'capped') {
              expect(state).toBe('grace')
              expect(now.getTime() - changedAt.getTime()).toBeGreaterThanOrEqual(graceMs)
            }
            if (then !== state) changedAt = now
            state = then
          }
        },
      ),
    )
  })
})
