/** Tests how concurrent creates in one project lock the limits of its plan. */
import { afterAll, describe, expect, it } from 'vitest'
import { testDatabase } from '../../../test/support/database.ts'
import { until } from '../../../test/support/wait.ts'
import { statement, type Tx } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { lockLimits } from './locking.ts'
import { type Plan, plans } from './plans.ts'
import { changePlan, lockedPlan, wantDeleted } from './store.ts'

const { db, drop } = await testDatabase()
afterAll(drop)

const insert = statement(
  'test.project',
  `INSERT INTO project (id, slug, name, plan, ipv6_prefix) VALUES ($1, $2, $2, $3, $4)`,
)
let made = 0
async function projectOf(plan: Plan): Promise<string> {
  const id = newId()
  await db.run(insert, [id, `p-${++made}`, plan, `fd00:0:0:${made}::/64`])
  return id
}

const waiting = statement<{ n: number }>(
  'test.waiting',
  `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
)
const somebodyWaits = () => until(async () => (await db.one(waiting)).n === 1, { what: 'a transaction that waits' })

/**
 * Begins a transaction and waits until `first` has run in it. Returns the result of `first`, and a function that ends
 * the transaction.
 */
async function open<T>(first: (tx: Tx) => Promise<T>): Promise<{ value: T; end(): Promise<void> }> {
  const began = Promise.withResolvers<T>()
  const ended = Promise.withResolvers<void>()
  const done = db.tx(async tx => {
    began.resolve(await first(tx))
    await ended.promise
  })
  const value = await Promise.race([began.promise, done.then(() => began.promise)])
  return {
    value,
    end: () => {
      ended.resolve()
      return done
    },
  }
}
const limitsOf = (projectId: string) => db.tx(tx => lockLimits(tx, projectId))

describe('the limits of a plan', () => {
  it('can be read by several transactions at once if the plan has no numeric limits', async () => {
    const id = await projectOf('unlimited')
    const one = await open(tx => lockLimits(tx, id))
    const two = await open(tx => lockLimits(tx, id))
    expect([one.value, two.value]).toEqual([plans.unlimited, plans.unlimited])
    await Promise.all([one.end(), two.end()])
  })

  it.each(['free', 'pro', 'business'] as const)(
    'can be read by only one transaction at a time in the plan %s',
    async plan => {
      const id = await projectOf(plan)
      const one = await open(tx => lockLimits(tx, id))
      const order: string[] = []
      const two = limitsOf(id).then(limits => order.push('second') && limits)
      await somebodyWaits()
      order.push('first')
      await one.end()
      expect(await two).toEqual(plans[plan])
      expect(order).toEqual(['first', 'second'])
    },
  )

  it.each([
    ['unlimited', 'free'],
    ['free', 'unlimited'],
    ['free', 'pro'],
  ] as const)(
    'are read as those of the new plan if a concurrent transaction changes the plan from %s to %s',
    async (before, after) => {
      const id = await projectOf(before)
      const change = await open(async tx => {
        await lockedPlan(tx, id)
        await changePlan(tx, id, after)
      })
      const limits = limitsOf(id)
      await somebodyWaits()
      await change.end()
      expect(await limits).toEqual(plans[after])
    },
  )

  it.each(['unlimited', 'free'] as const)(
    'cannot change in the plan %s until the transaction that read the limits ends',
    async plan => {
      const id = await projectOf(plan)
      const create = await open(tx => lockLimits(tx, id))
      const change = db.tx(tx => changePlan(tx, id, 'business'))
      await somebodyWaits()
      await create.end()
      expect(await change).toBe(true)
      expect(await limitsOf(id)).toEqual(plans.business)
    },
  )

  it.each(['unlimited', 'free'] as const)(
    'cannot be read (404) in the plan %s if the project is being deleted',
    async plan => {
      const id = await projectOf(plan)
      const deletion = await open(tx => wantDeleted(tx, id))
      const refused = expect(limitsOf(id)).rejects.toMatchObject({ status: 404 })
      await somebodyWaits()
      await deletion.end()
      await refused
      await expect(limitsOf(newId())).rejects.toMatchObject({ status: 404 })
    },
  )
})
