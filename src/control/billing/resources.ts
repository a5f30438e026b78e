/** Request and response schemas of the billing operations. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, int32, int64, list, maybe, nullable, resource, text } from '../http/types.ts'

const limit = (description: string, example: number) => int64({ description, examples: [example] })

export const PlanLimits = resource(
  'PlanLimits',
  {
    autoscaling_allowed: bool({ description: 'Whether apps may scale automatically.' }),
    custom_domains: bool({ description: 'Whether apps may have custom domains.' }),
    max_apps: limit('Maximum number of apps in the project.', 25),
    max_databases: limit('Maximum number of managed databases in the project.', 5),
    max_deployments_per_app: limit('Maximum number of deployments that one app may have at a time.', 25),
    max_memory_mb_total: limit('Maximum total memory of all VMs in the project, in MiB.', 65_536),
    max_storage_gb_total: limit('Maximum total size of all volumes in the project, in GiB.', 250),
    max_team_members: limit('Maximum number of project members and open invitations together.', 10),
    max_vcpus_total: limit('Maximum total number of vCPUs of all VMs in the project.', 32),
    max_volumes: limit('Maximum number of volumes in the project.', 50),
  },
  {
    description:
      'Limits of the plan. A request that would exceed one is refused with 403 `plan_limit_exceeded`; existing resources are never removed. 1000000000 means unlimited.',
  },
)
export type PlanLimits = Static<typeof PlanLimits>

const productId = (description: string) => text({ description, examples: ['prod_pro'] })
const currency = (description: string) => text({ description, examples: ['eur'] })

export const BillingSummary = resource(
  'BillingSummary',
  {
    tenant_id: text({ description: 'Slug of the project.', examples: ['acme'] }),
    customer_external_id: text({
      description: 'UUID of the project, which identifies it at the billing provider.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    status: text({
      description:
        'State of the subscription: `none`, `active`, `trialing`, `past_due` (a payment failed) or `canceled` (it has ended).',
      examples: ['active'],
    }),
    cancel_at_period_end: bool({
      description: 'Whether the subscription was canceled, so that it ends with the current billing period.',
      examples: [false],
    }),
    is_test_mode: bool({
      description: 'Whether the billing provider is a sandbox, in which no real payments are made.',
      examples: [false],
    }),
    has_billing_record: bool({
      description: 'Whether the project has or had a subscription, or is a customer of the billing provider.',
    }),
    amount_cents: maybe(
      int32({
        description: 'Price of a billing period, in the smallest unit of `currency`; null without a subscription.',
        examples: [2_000],
      }),
    ),
    currency: maybe(currency('ISO 4217 code of `amount_cents`, in lower case; null without a subscription.')),
    current_period_start: maybe(
      dateTime({
        description: 'Start of the current billing period; null without a subscription.',
        examples: ['2026-03-01T00:00:00.000Z'],
      }),
    ),
    current_period_end: maybe(
      dateTime({
        description:
          'End of the current billing period, when the subscription renews or ends; null without a subscription.',
        examples: ['2026-04-01T00:00:00.000Z'],
      }),
    ),
    default_checkout_product_id: maybe(
      productId('Id of the product that a checkout sells if none was chosen; null if no product is for sale.'),
    ),
    selected_checkout_product_id: maybe(
      productId(
        'Id of the product that was chosen with `PUT /v1/billing/checkout-product`; null if none was chosen, or if it is no longer sold.',
      ),
    ),
    plan_name: maybe(text({ description: 'Display name of the plan.', examples: ['Pro'] })),
    tier_slug: maybe(
      text({ description: 'Plan of the project: `free`, `pro`, `business` or `unlimited`.', examples: ['pro'] }),
    ),
    provider_customer_id: maybe(
      text({
        description: 'Customer id at the billing provider; null before the first checkout.',
        examples: ['cus_acme'],
      }),
    ),
    provider_product_id: maybe(productId('Id of the subscribed product; null without a subscription.')),
    provider_subscription_id: maybe(
      text({
        description: 'Subscription id at the billing provider; null without a subscription.',
        examples: ['sub_acme_pro'],
      }),
    ),
    plan_limits: Type.Optional(nullable(PlanLimits, { description: "Limits of the project's plan." })),
  },
  { description: 'Plan of a project and the subscription that pays for it.' },
)
export type BillingSummary = Static<typeof BillingSummary>

export const BillingProduct = resource(
  'BillingProduct',
  {
    id: productId('Id of the product at the billing provider.'),
    name: text({ description: 'Name of the product, as shown to customers.', examples: ['Pro'] }),
    is_archived: bool({
      description: 'Whether the product is no longer sold. Existing subscriptions to it continue.',
      examples: [false],
    }),
    is_default_checkout_product: bool({ description: 'Whether a checkout sells this product if none was chosen.' }),
    description: maybe(
      text({
        description: 'What the product includes, as text for customers; null if the provider has no description.',
        examples: ['For small teams.'],
      }),
    ),
    currency: maybe(currency('ISO 4217 code of the price, in lower case; null without a fixed price.')),
    price_amount_cents: maybe(
      int32({
        description: 'Price of a billing period, in the smallest unit of `currency`; null without a fixed price.',
        examples: [2_000],
      }),
    ),
    recurring_interval: maybe(
      text({
        description:
          'Length of a billing period, as the billing provider names it, such as `month` or `year`; null for a one-time payment.',
        examples: ['month'],
      }),
    ),
  },
  { description: 'A product that a project can subscribe to.' },
)
export type BillingProduct = Static<typeof BillingProduct>

export const BillingProductList = resource(
  'BillingProductList',
  {
    products: list(BillingProduct, {
      description: 'Products on sale first, then archived ones; the cheapest first. Empty without a billing provider.',
    }),
    default_checkout_product_id: maybe(
      productId('Id of the product that a checkout sells if none was chosen; null if no product is for sale.'),
    ),
    last_synced_at: maybe(
      dateTime({ description: 'When the products were last read from the billing provider; null if never.' }),
    ),
  },
  { description: 'Products of the billing provider.' },
)
export type BillingProductList = Static<typeof BillingProductList>

export const Redirect = resource(
  'Redirect',
  {
    url: text({
      description: 'URL of a page to open in a browser. Anyone who has the URL can open it.',
      examples: ['https://pay.example.com/c/Wm8kZ1xT7uYb5nR2'],
    }),
  },
  { description: 'A page to open in a browser.' },
)
export type Redirect = Static<typeof Redirect>
