/** Request and response schemas of the billing operations. */
import { type Static, Type } from 'typebox'
import { bool, dateTime, int32, int64, list, maybe, nullable, resource, text } from '../http/types.ts'

const limit = (description: string, example: number) => int64({ description, examples: [example] })

export const PlanLimits = resource(
  'PlanLimits',
  {
    autoscaling_allowed: bool({ description: 'Whether apps may scale automatically.' }),
    custom_domains: bool({ description: 'Whether apps may have custom domains.' }),
    max_apps: limit('Apps in the project.', 25),
    max_databases: limit('Managed databases in the project.', 5),
    max_deployments_per_app: limit('Deployments that one app may have at a time.', 25),
    max_memory_mb_total: limit('Memory of everything that runs in the project, in MiB.', 65_536),
    max_storage_gb_total: limit('Size of all volumes in the project, in GiB.', 250),
    max_team_members: limit('Members and open invitations.', 10),
    max_vcpus_total: limit('vCPUs of everything that runs in the project.', 32),
    max_volumes: limit('Volumes in the project.', 50),
  },
  {
    description:
      'What the plan allows. A request for more is refused with 403 `plan_limit_exceeded`; what exists is never removed. 1000000000 means unlimited.',
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
      description: 'Id by which the billing provider knows the project: the UUID of the project.',
      examples: ['0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10'],
    }),
    status: text({
      description:
        'State of the subscription: `none`, `active`, `trialing`, `past_due` (a payment failed) or `canceled` (over).',
      examples: ['active'],
    }),
    cancel_at_period_end: bool({
      description: 'Whether the subscription was canceled and ends with the current period.',
      examples: [false],
    }),
    is_test_mode: bool({
      description: 'Whether the billing provider charges nobody, as in its sandbox.',
      examples: [false],
    }),
    has_billing_record: bool({
      description: 'Whether the project has or had a subscription, or is a customer of the billing provider.',
    }),
    amount_cents: maybe(
      int32({
        description: 'Price of a period, in the smallest unit of `currency`; null without a subscription.',
        examples: [2_000],
      }),
    ),
    currency: maybe(currency('ISO 4217 code of `amount_cents`, in lower case; null without a subscription.')),
    current_period_start: maybe(
      dateTime({
        description: 'Start of the period that is paid or due; null without a subscription.',
        examples: ['2026-03-01T00:00:00.000Z'],
      }),
    ),
    current_period_end: maybe(
      dateTime({
        description: 'End of that period, when the subscription renews or ends; null without a subscription.',
        examples: ['2026-04-01T00:00:00.000Z'],
      }),
    ),
    default_checkout_product_id: maybe(
      productId('Product that a checkout sells if none is chosen; null if nothing is for sale.'),
    ),
    selected_checkout_product_id: maybe(
      productId('Product chosen with `PUT /v1/billing/checkout-product`; null if none is, or it is no longer sold.'),
    ),
    plan_name: maybe(text({ description: 'Plan of the project, for people.', examples: ['Pro'] })),
    tier_slug: maybe(
      text({ description: 'Plan of the project: `free`, `pro`, `business` or `unlimited`.', examples: ['pro'] }),
    ),
    provider_customer_id: maybe(
      text({
        description: 'Id that the billing provider gave the customer; null before the first checkout.',
        examples: ['cus_acme'],
      }),
    ),
    provider_product_id: maybe(productId('Product that is subscribed to; null without a subscription.')),
    provider_subscription_id: maybe(
      text({
        description: 'Id that the billing provider gave the subscription; null without one.',
        examples: ['sub_acme_pro'],
      }),
    ),
    plan_limits: Type.Optional(nullable(PlanLimits, { description: 'What the plan of the project allows.' })),
  },
  { description: 'Plan of a project and the subscription that pays for it.' },
)
export type BillingSummary = Static<typeof BillingSummary>

export const BillingProduct = resource(
  'BillingProduct',
  {
    id: productId('Id that the billing provider gave the product.'),
    name: text({ description: 'Shown to customers.', examples: ['Pro'] }),
    is_archived: bool({
      description: 'Whether the product is no longer sold. Existing subscriptions to it go on.',
      examples: [false],
    }),
    is_default_checkout_product: bool({ description: 'Whether a checkout sells this product if none is chosen.' }),
    description: maybe(
      text({ description: 'What customers get; null if the provider has no text.', examples: ['For small teams.'] }),
    ),
    currency: maybe(currency('ISO 4217 code of the price, in lower case; null without a fixed price.')),
    price_amount_cents: maybe(
      int32({
        description: 'Price of a period, in the smallest unit of `currency`; null without a fixed price.',
        examples: [2_000],
      }),
    ),
    recurring_interval: maybe(
      text({
        description: 'Length of a period, in the words of the provider, such as `month` or `year`; null if paid once.',
        examples: ['month'],
      }),
    ),
  },
  { description: 'Product that a project can subscribe to.' },
)
export type BillingProduct = Static<typeof BillingProduct>

export const BillingProductList = resource(
  'BillingProductList',
  {
    products: list(BillingProduct, {
      description: 'Products on sale first, then archived ones; the cheapest first. Empty without a billing provider.',
    }),
    default_checkout_product_id: maybe(
      productId('Product that a checkout sells if none is chosen; null if nothing is for sale.'),
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
      description: 'Page to open in a browser. Anyone who has the address can open it.',
      examples: ['https://pay.example.com/c/Wm8kZ1xT7uYb5nR2'],
    }),
  },
  { description: 'Page to send a browser to.' },
)
export type Redirect = Static<typeof Redirect>
