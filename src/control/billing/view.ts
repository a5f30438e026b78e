import { type PlanLimits, planLimits } from '../projects/index.ts'
import type { Catalogue } from './catalogue.ts'
import { type Decision, wireStatus } from './decide.ts'
import type { BillingProductList, BillingSummary, PlanLimits as LimitsView } from './resources.ts'
import type { Account } from './store.ts'

const planNames: Readonly<Record<string, string>> = {
  free: 'Free',
  pro: 'Pro',
  business: 'Business',
  unlimited: 'Unlimited',
}

export interface SummaryParts {
  readonly project: { readonly id: string; readonly slug: string }
  readonly plan: string
  readonly account: Account | undefined
  readonly shown: Decision['shown']
  readonly catalogue: Pick<Catalogue, 'products' | 'defaultProduct'>
  readonly isTestMode: boolean
}

export function viewSummary({ project, plan, account, shown, catalogue, isTestMode }: SummaryParts): BillingSummary {
  const selected = catalogue.products.find(p => p.id === account?.selectedProductId && !p.isArchived)
  return {
    tenant_id: project.slug,
    customer_external_id: project.id,
    status: shown ? wireStatus[shown.state] : 'none',
    cancel_at_period_end: shown?.cancelAtPeriodEnd ?? false,
    is_test_mode: isTestMode,
    has_billing_record: shown !== undefined || (account?.customerId ?? null) !== null,
    amount_cents: shown?.amountCents ?? null,
    currency: shown?.currency ?? null,
    current_period_start: shown?.periodStart?.toISOString() ?? null,
    current_period_end: shown?.periodEnd?.toISOString() ?? null,
    default_checkout_product_id: catalogue.defaultProduct?.id ?? null,
    selected_checkout_product_id: selected?.id ?? null,
    plan_name: planNames[plan] ?? plan,
    tier_slug: plan,
    provider_customer_id: shown?.customerId ?? account?.customerId ?? null,
    provider_product_id: shown?.productId ?? null,
    provider_subscription_id: shown?.id ?? null,
    plan_limits: viewLimits(planLimits(plan)),
  }
}

const viewLimits = (limits: PlanLimits): LimitsView => ({
  autoscaling_allowed: limits.autoscalingAllowed,
  custom_domains: limits.customDomains,
  max_apps: limits.maxApps,
  max_databases: limits.maxDatabases,
  max_deployments_per_app: limits.maxDeploymentsPerApp,
  max_memory_mb_total: limits.maxMemoryMibTotal,
  max_storage_gb_total: limits.maxStorageGibTotal,
  max_team_members: limits.maxTeamMembers,
  max_vcpus_total: limits.maxVcpusTotal,
  max_volumes: limits.maxVolumes,
})

export const viewProducts = (
  { products, defaultProduct }: Pick<Catalogue, 'products' | 'defaultProduct'>,
  lastSyncedAt: Date | null,
): BillingProductList => ({
  products: products.map(p => ({
    id: p.id,
    name: p.name,
    is_archived: p.isArchived,
    is_default_checkout_product: p.id === defaultProduct?.id,
    description: p.description,
    currency: p.currency,
    price_amount_cents: p.priceAmountCents,
    recurring_interval: p.recurringInterval,
  })),
  default_checkout_product_id: defaultProduct?.id ?? null,
  last_synced_at: lastSyncedAt?.toISOString() ?? null,
})
