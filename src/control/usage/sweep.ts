import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { hours, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { wakeApp } from '../scaling/index.ts'
import type { LiveStats } from '../hosts/index.ts'
import { notify } from '../notifications/index.ts'
import { lockedPlan } from '../projects/index.ts'
import { refreshRoute } from '../routing/index.ts'
import { type BudgetState, budgetState, costCents, monthOf } from './rules.ts'
import { levelOf } from '../../lib/outage.ts'
import * as store from './store.ts'

/** Retention of compute usage, about 13 months: the months that can be queried. */
const spansKeptMs = hours(24 * 400)

/**
 * The sweep that counts sampled usage: storage over time, and egress from the counters that hosts report. Each run is
 * one transaction.
 */
export const usageCounting = (deps: Pick<Deps, 'db'> & { readonly live: LiveStats }): Sweep => ({
  name: 'usage-counting',
  everyMs: seconds(15),
  async run({ now }) {
    const bytes = new Map<string, number>()
    for (const id of await store.vmIds(deps.db)) {
      const stats = deps.live.get(id)
      if (stats) bytes.set(id, stats.txBytes)
    }
    await deps.db.tx(async tx => {
      // The lock serializes concurrent runs of the sweep; a second run finds nothing left to count.
      let from = await store.mark(tx)
      while (from < now) {
        const { from: month, to } = monthOf(from)
        const until = now < to ? now : to
        await store.addStorage(tx, from, until, month)
        from = until
      }
      await store.addEgress(tx, bytes, monthOf(now).from)
    })
    await store.forget(deps.db, new Date(now.getTime() - spansKeptMs))
    return { vms: bytes.size }
  },
})

/**
 * The sweep that enforces budgets: it warns, grants a grace period, then puts all apps of the project to sleep, and
 * wakes them when the budget allows it.
 */
export const budgetKeeping = (deps: Pick<Deps, 'db' | 'config' | 'log'>): Sweep => ({
  name: 'budgets',
  everyMs: seconds(30),
  async run({ now }) {
    const found = await store.budgets(deps.db)
    const counts = { budgets: found.length, capped: 0, failed: 0 }
    for (const { projectId } of found)
      try {
        const state = await deps.db.tx(tx => keepBudget(deps, tx, projectId, now))
        if (state === 'capped') counts.capped++
      } catch (err) {
        counts.failed++
        deps.log[levelOf(err)]({ err, projectId }, 'a budget could not be enforced in this run')
      }
    return counts
  },
})

/** Enforces the budget of a project. Also called in the transaction that changes or removes a budget. */
export async function keepBudget(
  deps: Pick<Deps, 'config'>,
  tx: Tx,
  projectId: string,
  now: Date,
): Promise<BudgetState | undefined> {
  await store.hold(tx, projectId)
  if ((await lockedPlan(tx, projectId)) === undefined) return undefined
  const budget = await store.budget(tx, projectId)
  const month = monthOf(now)
  if (!budget) {
    await uncap(tx, projectId)
    return undefined
  }
  const isNewMonth = budget.month < month.from
  const cost = costCents(await store.used(tx, projectId, month, now), deps.config.prices)
  const facts = { costCents: cost, budgetCents: budget.monthlyCents, changedAt: budget.changedAt }
  const before = isNewMonth ? 'fine' : budget.state
  const state = budgetState({ ...facts, state: before }, now, hours(deps.config.budgetGraceHours))
  if (state !== budget.state || isNewMonth) await store.move(tx, projectId, state, month.from)
  if (state !== before) await report(tx, projectId, state, deps.config.budgetGraceHours)
  if (state === 'capped') await capAll(tx, projectId)
  else await uncap(tx, projectId)
  return state
}

const byId = (a: { readonly id: string }, b: { readonly id: string }) => (a.id < b.id ? -1 : 1)

/**
 * Puts the project's apps to sleep. Every run of the sweep repeats this, because an app whose deployment was being
 * rolled out may have become active since.
 */
async function capAll(tx: Tx, projectId: string): Promise<void> {
  await store.cap(tx, projectId, true)
  for (const { id, deploymentId } of (await store.sleep(tx, projectId)).toSorted(byId)) {
    await refreshRoute(tx, id)
    await poke(tx, 'deployment', deploymentId)
  }
}

async function uncap(tx: Tx, projectId: string): Promise<void> {
  if (!(await store.cap(tx, projectId, false))) return
  for (const id of await store.asleep(tx, projectId)) await wakeApp(tx, id)
}

const texts = {
  warned: ['80 % of the budget is used', 'Nothing happens yet.'],
  grace: [
    'The budget is used up',
    'Apps keep running during the grace period. After it, the apps of the project sleep.',
  ],
  capped: [
    'The apps of the project sleep',
    'The budget is used up. They wake when the budget is raised, or with the next month. Nothing is deleted.',
  ],
} as const

async function report(tx: Tx, projectId: string, state: BudgetState, graceHours: number): Promise<void> {
  if (state === 'fine') return
  const [title, body] = texts[state]
  await notify(tx, {
    projectId,
    kind: 'billing.trouble',
    title,
    resourceId: projectId,
    entityName: 'Budget',
    route: '/billing',
    body: state === 'grace' ? `${body} It ends in ${graceHours} hours.` : body,
  })
}
