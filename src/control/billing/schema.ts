import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { bool, dateTime, int32, int64, list, maybe, nullable, resource, text } from '../http/types.ts'

export const PlanLimits = resource('PlanLimits', {
  autoscaling_allowed: bool(),
  custom_domains: bool(),
  max_apps: int64(),
  max_databases: int64(),
  max_deployments_per_app: int64(),
  max_memory_mb_total: int64(),
  max_storage_gb_total: int64(),
  max_team_members: int64(),
  max_vcpus_total: int64(),
  max_volumes: int64(),
})
export type PlanLimits = Static<typeof PlanLimits>

export const BillingSummary = resource('BillingSummary', {
  tenant_id: text(),
  customer_external_id: text(),
  status: text({ description: '`none`, `active`, `trialing`, `past_due` or `canceled`.' }),
  cancel_at_period_end: bool(),
  is_test_mode: bool(),
  has_billing_record: bool(),
  amount_cents: maybe(int32()),
  currency: maybe(text()),
  current_period_start: maybe(dateTime()),
  current_period_end: maybe(dateTime()),
  default_checkout_product_id: maybe(text()),
  selected_checkout_product_id: maybe(text()),
  plan_name: maybe(text()),
  tier_slug: maybe(text()),
  provider_customer_id: maybe(text()),
  provider_product_id: maybe(text()),
  provider_subscription_id: maybe(text()),
  plan_limits: Type.Optional(nullable(PlanLimits)),
})
export type BillingSummary = Static<typeof BillingSummary>

export const BillingProduct = resource('BillingProduct', {
  id: text(),
  name: text(),
  is_archived: bool(),
  is_default_checkout_product: bool(),
  description: maybe(text()),
  currency: maybe(text()),
  price_amount_cents: maybe(int32()),
  recurring_interval: maybe(text()),
})
export type BillingProduct = Static<typeof BillingProduct>

export const BillingProductList = resource('BillingProductList', {
  products: list(BillingProduct),
  default_checkout_product_id: maybe(text()),
  last_synced_at: maybe(dateTime()),
})
export type BillingProductList = Static<typeof BillingProductList>

export const Redirect = resource('Redirect', { url: text({ description: 'Where to send the browser.' }) })
export type Redirect = Static<typeof Redirect>

const ProductChoice = resource('ProductChoice', { product_id: maybe(text({ maxLength: 200 })) })

const shared = { tag: 'Billing', auth: 'bearer', project: 'selected' } as const

/** Whoever has the link may open it, as with the pages of other providers. */
const sandboxPage = {
  tag: 'Billing',
  auth: 'none',
  scope: 'read',
  project: 'none',
  query: Type.Object({ session: text({ maxLength: 100 }) }),
  answer: 'html',
  forms: true,
  proof: 'random id of the session in the link',
  addition: true,
} as const

export const billingOperations = operations({
  getBilling: {
    method: 'GET',
    path: '/v1/billing',
    summary: 'Plan, subscription and limits of the project',
    ...shared,
    scope: 'read',
    answer: BillingSummary,
  },
  listBillingProducts: {
    method: 'GET',
    path: '/v1/billing/products',
    summary: 'What can be subscribed to',
    tag: 'Billing',
    auth: 'none',
    proof: 'none: public',
    scope: 'read',
    project: 'none',
    answer: BillingProductList,
  },
  refreshBillingProducts: {
    method: 'POST',
    path: '/v1/billing/products/refresh',
    summary: 'Reads the products from the billing provider again',
    tag: 'Billing',
    auth: 'bearer',
    project: 'none',
    scope: 'admin',
    adminOnly: true,
    answer: BillingProductList,
  },
  chooseCheckoutProduct: {
    method: 'PUT',
    path: '/v1/billing/checkout-product',
    summary: 'Chooses the product of the next checkout; null goes back to the default',
    ...shared,
    scope: 'admin',
    body: ProductChoice,
    bodyRequired: true,
    answer: BillingSummary,
  },
  createCheckout: {
    method: 'POST',
    path: '/v1/billing/checkout',
    summary: 'A page where the subscription can be paid',
    ...shared,
    scope: 'admin',
    body: ProductChoice,
    bodyRequired: true,
    answer: Redirect,
  },
  openBillingPortal: {
    method: 'POST',
    path: '/v1/billing/portal',
    summary: 'A page where the subscription can be managed',
    ...shared,
    scope: 'admin',
    answer: Redirect,
  },
  sandboxCheckoutPage: {
    method: 'GET',
    path: '/v1/billing/sandbox/checkout',
    summary: 'The page where a checkout of the sandbox is paid',
    ...sandboxPage,
  },
  paySandboxCheckout: {
    method: 'POST',
    path: '/v1/billing/sandbox/checkout',
    summary: 'Pays it, with no money',
    ...sandboxPage,
    rawBody: true,
    bodyRequired: true,
  },
  sandboxPortalPage: {
    method: 'GET',
    path: '/v1/billing/sandbox/portal',
    summary: 'The page where subscriptions of the sandbox are managed',
    ...sandboxPage,
  },
  changeInSandboxPortal: {
    method: 'POST',
    path: '/v1/billing/sandbox/portal',
    summary: 'Cancels, resumes, pays, lets a payment fail, or turns the clock to the next period',
    ...sandboxPage,
    rawBody: true,
    bodyRequired: true,
  },
})
