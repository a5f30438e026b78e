import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'
import type { Product, Subscription } from './provider.ts'

const columns = `id, customer_id AS "customerId", product_id AS "productId", state, amount_cents AS "amountCents", currency,
  period_start AS "periodStart", period_end AS "periodEnd", cancel_at_period_end AS "cancelAtPeriodEnd",
  modified_at AS "modifiedAt"`

const ofProject = statement<Subscription>(
  'billing.subscriptions',
  `SELECT ${columns} FROM billing_subscription WHERE provider = $1 AND project_id = $2 ORDER BY id`,
)
const byId = statement<Subscription & { projectId: string }>(
  'billing.subscription',
  `SELECT ${columns}, project_id AS "projectId" FROM billing_subscription WHERE provider = $1 AND id = $2`,
)
const put = statement(
  'billing.putSubscription',
  `INSERT INTO billing_subscription (provider, id, project_id, customer_id, product_id, state, amount_cents, currency,
     period_start, period_end, cancel_at_period_end, modified_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
   ON CONFLICT (provider, id) DO UPDATE SET customer_id = $4, product_id = $5, state = $6, amount_cents = $7, currency = $8,
     period_start = $9, period_end = $10, cancel_at_period_end = $11, modified_at = $12`,
)
const all = statement<Subscription & { projectId: string; plan: string }>(
  'billing.allSubscriptions',
  `SELECT ${columns.replace(/^id/, 's.id')}, s.project_id AS "projectId", p.plan
   FROM billing_subscription s JOIN project p ON p.id = s.project_id AND p.want = 'live' WHERE s.provider = $1`,
)
const orphans = statement<{ id: string; projectId: string }>(
  'billing.orphans',
  `SELECT s.id, s.project_id AS "projectId" FROM billing_subscription s LEFT JOIN project p ON p.id = s.project_id
   WHERE s.provider = $1 AND s.state <> 'canceled' AND (p.id IS NULL OR p.want = 'deleted') LIMIT 20`,
)
const cancelOrphan = statement(
  'billing.cancelOrphan',
  `UPDATE billing_subscription SET state = 'canceled' WHERE provider = $1 AND id = $2`,
)

export const subscriptionsOf = (sql: Sql, provider: string, projectId: string) =>
  sql.rows(ofProject, [provider, projectId])
export const subscription = (sql: Sql, provider: string, id: string) => sql.maybe(byId, [provider, id])
export const putSubscription = (tx: Tx, provider: string, projectId: string, s: Subscription) =>
  tx.run(put, [
    provider,
    s.id,
    projectId,
    s.customerId,
    s.productId,
    s.state,
    s.amountCents,
    s.currency,
    s.periodStart,
    s.periodEnd,
    s.cancelAtPeriodEnd,
    s.modifiedAt,
  ])
/** Returns the subscriptions of live projects, with each project's current plan. */
export const liveSubscriptions = (db: Db, provider: string) => db.rows(all, [provider])
/** Returns the subscriptions that are still running although their project is deleted. */
export const orphanedSubscriptions = (db: Db, provider: string) => db.rows(orphans, [provider])
export const markOrphanCanceled = (db: Db, provider: string, id: string) => db.run(cancelOrphan, [provider, id])

export interface Account {
  readonly selectedProductId: string | null
  readonly customerId: string | null
}

const account = statement<Account>(
  'billing.account',
  `SELECT selected_product_id AS "selectedProductId", customer_id AS "customerId" FROM billing_account WHERE project_id = $1`,
)
const select = statement(
  'billing.select',
  `INSERT INTO billing_account (project_id, selected_product_id) VALUES ($1, $2)
   ON CONFLICT (project_id) DO UPDATE SET selected_product_id = $2`,
)
// Stripe may create several customers for a project. The greatest id is stored, so that the result does not depend on
// the order of events.
const putCustomer = statement(
  'billing.putCustomer',
  `INSERT INTO billing_account (project_id, customer_id, check_at) VALUES ($1, $2, now() + interval '6 hours')
   ON CONFLICT (project_id) DO UPDATE SET customer_id = GREATEST(excluded.customer_id, billing_account.customer_id),
     check_at = COALESCE(billing_account.check_at, excluded.check_at)`,
)
const checkAt = statement(
  'billing.checkAt',
  `INSERT INTO billing_account (project_id, check_at) VALUES ($1, $2)
   ON CONFLICT (project_id) DO UPDATE SET check_at = $2`,
)
const checkout = statement(
  'billing.checkout',
  `INSERT INTO billing_account (project_id, checkout_at, check_at) VALUES ($1, $2, $3)
   ON CONFLICT (project_id) DO UPDATE SET checkout_at = $2, check_at = $3`,
)
export interface DueAccount {
  readonly projectId: string
  readonly customerId: string | null
  /** Time of the last checkout. */
  readonly checkoutAt: Date
}
const due = statement<DueAccount>(
  'billing.due',
  `SELECT project_id AS "projectId", customer_id AS "customerId", checkout_at AS "checkoutAt" FROM billing_account
   WHERE check_at <= $1 ORDER BY check_at LIMIT $2`,
)
const byCustomer = statement<{ projectId: string }>(
  'billing.byCustomer',
  `SELECT project_id AS "projectId" FROM billing_account WHERE customer_id = $1 ORDER BY project_id LIMIT 1`,
)
const known = statement<{ known: boolean }>(
  'billing.known',
  `SELECT EXISTS (SELECT FROM project WHERE id = $1) OR EXISTS (SELECT FROM billing_account WHERE project_id = $1) AS known`,
)

export const accountOf = (sql: Sql, projectId: string) => sql.maybe(account, [projectId])
export const selectProduct = (tx: Tx, projectId: string, productId: string | null) =>
  tx.run(select, [projectId, productId])
export const rememberCustomer = (tx: Tx, projectId: string, customerId: string | null) =>
  tx.run(putCustomer, [projectId, customerId])
export const checkAgainAt = (sql: Sql, projectId: string, at: Date | null) => sql.run(checkAt, [projectId, at])
/** Records that a checkout was opened at `now`, and when its subscription is looked for. */
export const noteCheckout = (db: Db, projectId: string, now: Date, checkAt: Date) =>
  db.run(checkout, [projectId, now, checkAt])
export const dueForCheck = (db: Db, now: Date, limit: number) => db.rows(due, [now, limit])
export const projectOfCustomer = async (sql: Sql, customerId: string) =>
  (await sql.maybe(byCustomer, [customerId]))?.projectId
/**
 * Returns whether a project with this id exists or existed in this installation. Other installations may use the same
 * account at the billing provider.
 */
export const isKnown = async (sql: Sql, projectId: string) => (await sql.one(known, [projectId])).known

const projectPlan = statement<{ plan: string }>('billing.projectPlan', `SELECT plan FROM project WHERE id = $1`)
export const planOfProject = async (sql: Sql, projectId: string) => (await sql.maybe(projectPlan, [projectId]))?.plan

const record = statement(
  'billing.recordDelivery',
  `INSERT INTO billing_delivery (provider, id, kind, received_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
)
const forget = statement('billing.forgetDeliveries', `DELETE FROM billing_delivery WHERE received_at < $1`)
/**
 * Records the delivery. Returns false if it was already applied. If a concurrent transaction is applying the same
 * delivery, waits for that transaction.
 */
export const recordDelivery = async (tx: Tx, provider: string, id: string, kind: string, now: Date) =>
  (await tx.run(record, [provider, id, kind, now])) === 1
export const forgetDeliveries = (db: Db, before: Date) => db.run(forget, [before])

const productColumns = `id, name, description, is_archived AS "isArchived", plan, price_id AS "priceId",
  price_amount_cents AS "priceAmountCents", currency, recurring_interval AS "recurringInterval"`
const products = statement<Product>(
  'billing.products',
  `SELECT ${productColumns} FROM billing_product WHERE provider = $1 ORDER BY is_archived, price_amount_cents NULLS LAST, name, id`,
)
const putProduct = statement(
  'billing.putProduct',
  `INSERT INTO billing_product (provider, id, name, description, is_archived, plan, price_id, price_amount_cents, currency,
     recurring_interval)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
   ON CONFLICT (provider, id) DO UPDATE SET name = $3, description = $4, is_archived = $5, plan = $6, price_id = $7,
     price_amount_cents = $8, currency = $9, recurring_interval = $10`,
)
const archiveOthers = statement(
  'billing.archiveOthers',
  `UPDATE billing_product SET is_archived = true WHERE provider = $1 AND NOT id = ANY ($2) AND NOT is_archived`,
)
const lockCatalogue = statement(
  'billing.lockCatalogue',
  `INSERT INTO billing_catalogue (provider, last_synced_at) VALUES ($1, $2)
   ON CONFLICT (provider) DO UPDATE SET last_synced_at = $2, stale = false`,
)
const catalogue = statement<{ lastSyncedAt: Date | null; stale: boolean }>(
  'billing.catalogue',
  `SELECT last_synced_at AS "lastSyncedAt", stale FROM billing_catalogue WHERE provider = $1`,
)
const markStale = statement(
  'billing.markStale',
  `INSERT INTO billing_catalogue (provider, stale) VALUES ($1, true) ON CONFLICT (provider) DO UPDATE SET stale = true`,
)

/** Returns the price list: first the products on sale, then the archived ones, both sorted by price. */
export const productsOf = (sql: Sql, provider: string) => sql.rows(products, [provider])
export const catalogueOf = (sql: Sql, provider: string) => sql.maybe(catalogue, [provider])
export const catalogueChanged = (sql: Sql, provider: string) => sql.run(markStale, [provider])
/**
 * Stores the price list as read at `now`. Products missing from it are archived, not deleted, because subscriptions may
 * refer to them.
 */
export async function replaceProducts(tx: Tx, provider: string, list: readonly Product[], now: Date): Promise<void> {
  // The price list is locked first, so that concurrent refreshes run one after the other.
  await tx.run(lockCatalogue, [provider, now])
  for (const p of list)
    await tx.run(putProduct, [
      provider,
      p.id,
      p.name,
      p.description,
      p.isArchived,
      p.plan,
      p.priceId,
      p.priceAmountCents,
      p.currency,
      p.recurringInterval,
    ])
  await tx.run(archiveOthers, [provider, list.map(p => p.id)])
}
