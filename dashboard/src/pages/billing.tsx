import type { BillingProduct, BillingSummary, PlanLimits } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { CreditCard } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { ActionButton } from '../ui/action.tsx'
import { mib, money } from '../ui/format.ts'
import { Card, Fact, Facts, Page } from '../ui/layout.tsx'
import { Meter } from '../ui/meter.tsx'
import { Empty, Loaded, Notice } from '../ui/states.tsx'
import { Badge, Status } from '../ui/status.tsx'
import { Ago } from '../ui/time.tsx'
import { Usage } from './billing-usage.tsx'

export function Billing() {
  const billing = useQuery(queries.billing())
  const products = useQuery(queries.products())
  return (
    <Page title="Billing" lead="Plan, limits and usage of this project.">
      <Loaded query={billing}>
        {summary => (
          <div className="space-y-4">
            <Plan summary={summary} />
            <Usage currency={summary.currency ?? 'EUR'} />
            {summary.plan_limits && <Limits limits={summary.plan_limits} />}
            <Loaded query={products}>
              {({ products: all }) => <Products summary={summary} products={all.filter(one => !one.is_archived)} />}
            </Loaded>
          </div>
        )}
      </Loaded>
    </Page>
  )
}

function Plan({ summary }: { readonly summary: BillingSummary }) {
  const hasSubscription = Boolean(summary.provider_subscription_id)
  return (
    <Card
      title={
        <span className="flex items-center gap-2">
          {summary.plan_name ?? 'No plan'}
          {hasSubscription && <Status status={summary.status} />}
          {summary.is_test_mode && <Badge tone="warn">Test mode: no charges</Badge>}
        </span>
      }
      actions={
        <ActionButton
          reason={summary.provider_customer_id || hasSubscription ? undefined : 'Available after the first checkout.'}
          act={async () => location.assign((await api.openBillingPortal()).url)}
        >
          Manage subscription
        </ActionButton>
      }
    >
      <div className="space-y-4">
        {summary.status === 'past_due' && (
          <Notice tone="bad">The last payment failed. Update your payment method to keep the plan.</Notice>
        )}
        {summary.cancel_at_period_end && (
          <Notice tone="warn">
            The subscription ends <Ago at={summary.current_period_end} />.
          </Notice>
        )}
        {!hasSubscription && <p className="text-muted">This plan needs no subscription.</p>}
        {hasSubscription && (
          <Facts>
            <Fact name="Price">
              {summary.amount_cents != null && summary.currency
                ? money(summary.amount_cents, summary.currency)
                : 'nothing'}
            </Fact>
            <Fact name="Period began">
              <Ago at={summary.current_period_start} />
            </Fact>
            <Fact name={summary.cancel_at_period_end ? 'Ends' : 'Renews'}>
              <Ago at={summary.current_period_end} />
            </Fact>
            <Fact name="Project">{summary.tenant_id}</Fact>
          </Facts>
        )}
      </div>
    </Card>
  )
}

/** Limits from this number on are shown as no limit: the server represents "unlimited" by huge numbers. */
const plenty = 1_000_000_000

function Limits({ limits }: { readonly limits: PlanLimits }) {
  const apps = useQuery(queries.apps())
  const active = useQuery(queries.active())
  const volumes = useQuery(queries.volumes())
  const databases = useQuery(queries.databases())
  const running = active.data ?? []
  const rows = [
    ['Apps', apps.data?.length, limits.max_apps, String],
    ['Databases', databases.data?.length, limits.max_databases, String],
    ['Volumes', volumes.data?.length, limits.max_volumes, String],
    ['Running vCPUs', running.reduce((sum, one) => sum + one.vcpus, 0), limits.max_vcpus_total, String],
    ['Running memory', running.reduce((sum, one) => sum + one.memory_mib, 0), limits.max_memory_mb_total, mib],
    ['Storage', volumes.data?.reduce((sum, one) => sum + one.size_mib, 0), limits.max_storage_gb_total * 1024, mib],
  ] as const
  return (
    <Card title="Limits">
      <div className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
        {rows.map(([label, used, max, say]) =>
          max >= plenty ? (
            <p key={label} className="flex items-baseline justify-between text-xs">
              <span className="text-muted">{label}</span>
              <span className="font-medium tabular-nums">
                {used === undefined ? 'no limit' : `${say(used)}, no limit`}
              </span>
            </p>
          ) : (
            <Meter key={label} label={label} value={used ?? 0} max={max} text={`${say(used ?? 0)} of ${say(max)}`} />
          ),
        )}
      </div>
      <ul className="mt-4 flex flex-wrap gap-2">
        <li>
          <Badge tone={limits.autoscaling_allowed ? 'good' : 'calm'}>
            {limits.autoscaling_allowed ? 'Autoscaling' : 'No autoscaling'}
          </Badge>
        </li>
        <li>
          <Badge tone={limits.custom_domains ? 'good' : 'calm'}>
            {limits.custom_domains ? 'Custom domains' : 'No custom domains'}
          </Badge>
        </li>
        <li>
          <Badge>
            {limits.max_team_members >= plenty ? 'Unlimited members' : `${limits.max_team_members} members`}
          </Badge>
        </li>
        <li>
          <Badge>
            {limits.max_deployments_per_app >= plenty
              ? 'Unlimited deployments'
              : `${limits.max_deployments_per_app} deployments per app`}
          </Badge>
        </li>
      </ul>
    </Card>
  )
}

function Products({
  summary,
  products,
}: {
  readonly summary: BillingSummary
  readonly products: readonly BillingProduct[]
}) {
  if (products.length === 0)
    return (
      <Card>
        <Empty icon={CreditCard} title="No plans for sale">
          This installation has no billing provider. Its operator assigns plans.
        </Empty>
      </Card>
    )
  const hasSubscription = ['active', 'trialing', 'past_due'].includes(summary.status)
  return (
    <section aria-label="Plans" className="grid gap-4 sm:grid-cols-2 lg:grid-cols-3">
      {products.map(product => {
        const isCurrent = product.id === summary.provider_product_id
        return (
          <Card key={product.id} className={isCurrent ? 'border-accent!' : ''}>
            <div className="flex h-full flex-col gap-3">
              <div className="flex items-center justify-between">
                <h2 className="font-semibold">{product.name}</h2>
                {isCurrent && <Badge tone="good">Yours</Badge>}
              </div>
              <p>
                <span className="text-2xl font-semibold tracking-tight tabular-nums">
                  {product.price_amount_cents != null && product.currency
                    ? money(product.price_amount_cents, product.currency)
                    : 'Free'}
                </span>
                {product.recurring_interval && <span className="text-muted"> / {product.recurring_interval}</span>}
              </p>
              {product.description && <p className="text-muted">{product.description}</p>}
              <ActionButton
                look={product.is_default_checkout_product ? 'primary' : 'plain'}
                className="mt-auto w-full"
                reason={
                  hasSubscription ? 'The project has a subscription. Change it under “Manage subscription”.' : undefined
                }
                act={async () => location.assign((await api.createCheckout({ body: { product_id: product.id } })).url)}
              >
                Choose {product.name}
              </ActionButton>
            </div>
          </Card>
        )
      })}
    </section>
  )
}
