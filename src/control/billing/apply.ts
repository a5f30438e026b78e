/**
 * Applies billing events and fetched subscriptions: updates the subscription rows and derives the project's plan from
 * them, in one transaction.
 */
import type { Tx } from '../../db/db.ts'
import { hours } from '../../lib/duration.ts'
import { unknownAccount, writeAudit } from '../audit/index.ts'
import type { Deps } from '../base/deps.ts'
import { notify } from '../notifications/index.ts'
import { type Plan, changePlan, isPlan, lockedPlan } from '../projects/index.ts'
import { readCatalogue } from './catalogue.ts'
import { type Rules, decide, isNewer } from './decide.ts'
import type { BillingEvent, BillingProvider, FetchedSubscription, Subscription } from './provider.ts'
import * as store from './store.ts'

export type ApplyDeps = Pick<Deps, 'config'> & { readonly provider: Pick<BillingProvider, 'name'> }

/** Effect of a billing event. `ignored`: the event concerns another installation, or is older than the stored state. */
export type Effect = 'applied' | 'ignored'

export async function applyEvent(deps: ApplyDeps, tx: Tx, event: BillingEvent, now: Date): Promise<Effect> {
  switch (event.kind) {
    case 'subscription':
      return applySubscription(deps, tx, event.projectId, event.subscription, now)
    case 'customer':
      if (!(await store.isKnown(tx, event.projectId))) return 'ignored'
      await lockedPlan(tx, event.projectId)
      await store.rememberCustomer(tx, event.projectId, event.customerId)
      return 'applied'
    case 'catalogue':
      await store.catalogueChanged(tx, deps.provider.name)
      return 'applied'
    case 'other':
      return 'ignored'
  }
}

async function applySubscription(
  deps: ApplyDeps,
  tx: Tx,
  named: string | null,
  next: Subscription,
  now: Date,
): Promise<Effect> {
  const { name } = deps.provider
  // A subscription always belongs to the project for which it was first recorded, even if a later event names another
  // one.
  const owner = (await store.subscription(tx, name, next.id))?.projectId ?? named
  const projectId = owner ?? (next.customerId && (await store.projectOfCustomer(tx, next.customerId)))
  if (!projectId || !(await store.isKnown(tx, projectId))) return 'ignored'
  // The project is locked first, so that the reads below return the newest state.
  const plan = await lockedPlan(tx, projectId)
  await store.rememberCustomer(tx, projectId, next.customerId)
  const known = await store.subscription(tx, name, next.id)
  if (known && !isNewer(next, known)) return 'ignored'
  await store.putSubscription(tx, name, projectId, next)
  // The project has no plan if it is deleted or being deleted. A sweep ends its subscriptions.
  if (plan === undefined) return 'applied'
  await reportTrouble(tx, projectId, known, next)
  await settle(deps, tx, projectId, plan, now)
  return 'applied'
}

/** Input of `applyFetched`: a project's subscriptions as fetched from the provider. */
interface Fetched {
  readonly projectId: string
  readonly fetched: readonly FetchedSubscription[]
  /** The project's subscriptions as stored before the request to the provider. */
  readonly before: readonly Subscription[]
  readonly now: Date
}

/**
 * Applies subscriptions that were fetched from the provider. If the provider does not report when a subscription was
 * changed, the fetched state counts only if no event arrived during the request. Returns how many rows changed.
 */
export async function applyFetched(
  deps: ApplyDeps,
  tx: Tx,
  { projectId, fetched, before, now }: Fetched,
): Promise<number> {
  const plan = await lockedPlan(tx, projectId)
  let changed = 0
  for (const { createdAt, ...state } of fetched) {
    const known = await store.subscription(tx, deps.provider.name, state.id)
    const observed = before.find(s => s.id === state.id)
    const next = { ...state, modifiedAt: state.modifiedAt ?? observed?.modifiedAt ?? createdAt }
    const isUndisturbed = known === undefined || known.modifiedAt.getTime() === observed?.modifiedAt.getTime()
    const wins = state.modifiedAt === null ? isUndisturbed : !known || isNewer(next, known)
    if (!wins || (known && isSame(known, next)) || (known && known.projectId !== projectId)) continue
    await store.putSubscription(tx, deps.provider.name, projectId, next)
    if (plan !== undefined) await reportTrouble(tx, projectId, known, next)
    changed += 1
  }
  if (plan !== undefined) await settle(deps, tx, projectId, plan, now)
  return changed
}

const comparable = ({ id, customerId, productId, state, amountCents, currency, ...s }: Subscription) =>
  JSON.stringify([
    id,
    customerId,
    productId,
    state,
    amountCents,
    currency,
    s.periodStart,
    s.periodEnd,
    s.cancelAtPeriodEnd,
  ])
const isSame = (a: Subscription, b: Subscription) => comparable(a) === comparable(b)

export function rulesOf({ config }: Pick<Deps, 'config'>, planOf: Rules['planOf']): Rules {
  const { defaultPlan } = config
  if (!isPlan(defaultPlan)) throw new Error('BUG: the configured default plan is not a plan')
  return { planOf, defaultPlan, graceMs: hours(24 * config.billing.graceDays) }
}

/**
 * Gives the project the plan that its subscriptions grant. Returns whether the plan changed. The project must be
 * locked. Without any subscription, current or past, the project keeps its initial plan. A smaller plan deletes
 * nothing.
 */
export async function settle(deps: ApplyDeps, tx: Tx, projectId: string, from: string, now: Date): Promise<boolean> {
  const { name } = deps.provider
  const subscriptions = await store.subscriptionsOf(tx, name, projectId)
  if (subscriptions.every(s => s.state === 'incomplete')) return false
  const catalogue = await readCatalogue(tx, name, deps.config.billing)
  if (subscriptions.some(s => catalogue.planOf(s.productId) === undefined)) await store.catalogueChanged(tx, name)
  const { plan: to } = decide(subscriptions, now, rulesOf(deps, catalogue.planOf))
  if (to === from) return false
  await changePlan(tx, projectId, to)
  writeAudit(
    tx,
    { userId: unknownAccount, projectId, via: undefined, ip: undefined, requestId: undefined },
    { action: 'billing.plan_changed', resourceType: 'project', resourceId: projectId, details: { from, to, by: name } },
  )
  if (to === deps.config.defaultPlan) await notifyPlanLost(tx, projectId, from, to)
  return true
}

const about = { kind: 'billing.trouble', entityName: 'Billing', route: '/billing' } as const

async function notifyPlanLost(tx: Tx, projectId: string, from: string, to: Plan): Promise<void> {
  await notify(tx, {
    ...about,
    projectId,
    resourceId: projectId,
    title: `The plan is now "${to}"`,
    body: `The subscription of the plan "${from}" has ended. Nothing is deleted, but resources beyond the new limits cannot grow.`,
  })
}

/** Notifies the project when a payment fails or the subscription is cancelled, once per change. */
async function reportTrouble(
  tx: Tx,
  projectId: string,
  was: Subscription | undefined,
  is: Subscription,
): Promise<void> {
  const notice = { ...about, projectId, resourceId: is.id }
  const isUnpaid = (s: Subscription | undefined) => s?.state === 'past_due' || s?.state === 'unpaid'
  if (isUnpaid(is) && !isUnpaid(was))
    await notify(tx, {
      ...notice,
      title: 'A payment failed',
      body: 'Update the payment method in the billing portal to keep the plan.',
    })
  const ends = (s: Subscription | undefined) => s?.cancelAtPeriodEnd === true && s.state !== 'canceled'
  if (ends(is) && !ends(was))
    await notify(tx, {
      ...notice,
      title: 'The subscription ends',
      body: `It will not be renewed${is.periodEnd ? ` after ${is.periodEnd.toISOString().slice(0, 10)}` : ''}.`,
    })
}
