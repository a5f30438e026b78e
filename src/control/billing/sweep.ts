/** Background work of billing: recovers from lost webhooks and provider outages, and ends grace periods. */
import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes, seconds } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { lockedPlan } from '../projects/index.ts'
import { applyFetched, rulesOf, settle } from './apply.ts'
import { readCatalogue } from './catalogue.ts'
import { decide } from './decide.ts'
import type { BillingProvider } from './provider.ts'
import { createProvider } from './providers.ts'
import { deliverEvents, forgetOld, turnPeriods } from './sandbox/deliver.ts'
import * as store from './store.ts'

const catalogueLifeMs = hours(1)
const recheckMs = hours(6)
/** Delay after which a failed check of a project's subscriptions is repeated. */
const retryMs = minutes(10)
const checksPerRun = 50
/** Time for which a project without a subscription is checked after its last checkout, whose webhook may be lost. */
const unpaidCheckedMs = hours(24 * 7)
/**
 * Retention of the ids of webhook deliveries. Providers repeat a delivery for at most three days, and the timestamp
 * check refuses a delivery of this age.
 */
const deliveriesKeptMs = hours(24 * 30)

type SweepDeps = Deps & { readonly provider: BillingProvider | undefined }

/**
 * Updates the plans of projects whose grace period or paid period has expired, because providers send no event for
 * that. Calls no external service.
 */
export function billingPlans(deps: Deps, provider = createProvider(deps)): Sweep {
  return {
    name: 'billing-plans',
    everyMs: seconds(30),
    async run({ now }) {
      if (!provider) return {}
      const sandbox = provider.name === 'sandbox' ? await runSandbox({ ...deps, provider }, now) : {}
      const changed = await settleAll({ ...deps, provider }, provider, now)
      const forgotten = await store.forgetDeliveries(deps.db, new Date(now.getTime() - deliveriesKeptMs))
      return { ...sandbox, changed, forgotten }
    },
  }
}

async function runSandbox(deps: SweepDeps, now: Date) {
  await forgetOld(deps, now)
  const turned = await turnPeriods(deps, now)
  return { turned, delivered: await deliverEvents(deps) }
}

async function settleAll(deps: SweepDeps, provider: BillingProvider, now: Date): Promise<number> {
  const catalogue = await readCatalogue(deps.db, provider.name, deps.config.billing)
  const rules = rulesOf(deps, catalogue.planOf)
  const rows = (await store.liveSubscriptions(deps.db, provider.name)).filter(s => s.state !== 'incomplete')
  let changed = 0
  for (const [projectId, own] of Map.groupBy(rows, row => row.projectId)) {
    if (decide(own, now, rules).plan === own[0]?.plan) continue
    const isChanged = await deps.db.tx(async tx => {
      const plan = await lockedPlan(tx, projectId)
      return plan !== undefined && settle({ config: deps.config, provider }, tx, projectId, plan, now)
    })
    if (isChanged) changed += 1
  }
  return changed
}

/**
 * Calls the provider: refreshes the price list, fetches subscriptions whose events may have been lost, and ends
 * subscriptions of deleted projects.
 */
export function billingSync(deps: Deps, provider = createProvider(deps)): Sweep {
  return {
    name: 'billing-sync',
    everyMs: minutes(1),
    async run({ now, signal }) {
      if (!provider) return {}
      const counts = { products: 0, checked: 0, changed: 0, ended: 0, failed: 0 }
      /** Runs one task. If it fails, the other tasks still run. */
      const attempt = async (what: string, work: () => Promise<unknown>) => {
        if (signal.aborted) return
        await work().catch((err: unknown) => {
          counts.failed += 1
          deps.log.warn({ err, what }, 'billing could not be synchronized; the sweep will retry')
        })
      }
      await attempt('products', async () => {
        counts.products = await syncProducts(deps, provider, now)
      })
      for (const account of await store.dueForCheck(deps.db, now, checksPerRun))
        await attempt(account.projectId, async () => {
          await store.checkAgainAt(deps.db, account.projectId, new Date(now.getTime() + retryMs))
          counts.changed += await checkProject(deps, provider, account, now)
          counts.checked += 1
        })
      for (const { id } of await store.orphanedSubscriptions(deps.db, provider.name))
        await attempt(id, async () => {
          await provider.end(id)
          await store.markOrphanCanceled(deps.db, provider.name, id)
          counts.ended += 1
        })
      return counts
    },
  }
}

async function syncProducts(deps: Pick<Deps, 'db'>, provider: BillingProvider, now: Date): Promise<number> {
  const known = await store.catalogueOf(deps.db, provider.name)
  const isFresh = known?.lastSyncedAt && now.getTime() - known.lastSyncedAt.getTime() < catalogueLifeMs
  if (isFresh && !known.stale) return 0
  const products = await provider.products()
  await deps.db.tx(tx => store.replaceProducts(tx, provider.name, products, now))
  return products.length
}

async function checkProject(
  deps: Deps,
  provider: BillingProvider,
  { projectId, customerId, checkoutAt }: store.DueAccount,
  now: Date,
): Promise<number> {
  const before = await store.subscriptionsOf(deps.db, provider.name, projectId)
  const fetched = await provider.subscriptionsOf(projectId, customerId)
  return deps.db.tx(async tx => {
    const changed = await applyFetched({ config: deps.config, provider }, tx, { projectId, fetched, before, now })
    const isRunning = fetched.some(s => s.state !== 'canceled')
    const mayBePaid = before.length === 0 && now.getTime() - checkoutAt.getTime() < unpaidCheckedMs
    await store.checkAgainAt(tx, projectId, isRunning || mayBePaid ? new Date(now.getTime() + recheckMs) : null)
    return changed
  })
}
