import type { Usage as Numbers } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { api } from '../api/client.ts'
import { queries, refreshAll } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Field } from '../ui/form.tsx'
import { bytes, money } from '../ui/format.ts'
import { Card, Fact, Facts } from '../ui/layout.tsx'
import { Meter } from '../ui/meter.tsx'
import { Loaded, Notice } from '../ui/states.tsx'

const hourSeconds = 3600

/** Usage and estimated cost of the current month. */
export function Usage({ currency }: { readonly currency: string }) {
  const usage = useQuery({ ...queries.usage(), refetchInterval: 60_000 })
  return (
    <Card
      title="This month"
      lead="Resource usage, metered by the second."
      actions={usage.data && <Budget usage={usage.data} />}
    >
      <Loaded query={usage}>
        {numbers => (
          <div className="space-y-4">
            {numbers.budget_state === 'grace' && (
              <Notice tone="warn">The budget is used up. Apps will be suspended soon unless you raise it.</Notice>
            )}
            {numbers.budget_state === 'capped' && (
              <Notice tone="bad">The budget is used up. Apps are suspended until you raise it.</Notice>
            )}
            <Facts>
              <Fact name="So far">{money(numbers.cost_cents, currency)}</Fact>
              <Fact name="Estimate for the month">{money(numbers.estimate_cents, currency)}</Fact>
              <Fact name="vCPU hours">{(numbers.vcpu_seconds / hourSeconds).toFixed(1)}</Fact>
              <Fact name="Memory, GiB hours">{(numbers.memory_mib_seconds / 1024 / hourSeconds).toFixed(1)}</Fact>
              <Fact name="Storage, GB months">{numbers.storage_gb_months.toFixed(2)}</Fact>
              <Fact name="Traffic out">{bytes(numbers.egress_bytes)}</Fact>
            </Facts>
            {numbers.budget_cents !== null && (
              <div className="max-w-md">
                <Meter
                  label="Budget"
                  value={numbers.cost_cents}
                  max={numbers.budget_cents}
                  text={`${money(numbers.cost_cents, currency)} of ${money(numbers.budget_cents, currency)}`}
                />
              </div>
            )}
          </div>
        )}
      </Loaded>
    </Card>
  )
}

const centsOf = (amount: number) => Math.round(amount * 100)

function Budget({ usage }: { readonly usage: Numbers }) {
  return (
    <FormDialog
      title="Monthly budget"
      lead="We notify you at 80 %. After 100 % and a grace period, apps are suspended until you raise the budget."
      submit="Save"
      trigger={open => (
        <Button size="small" onClick={open}>
          {usage.budget_cents === null ? 'Set a budget' : 'Change the budget'}
        </Button>
      )}
      send={async values => {
        const amount = values.number('amount')
        await api.setBudget({ body: { monthly_cents: amount === undefined ? null : centsOf(amount) } })
        await refreshAll('usage', 'billing')
      }}
      fields={
        <Field
          label="Amount"
          name="amount"
          type="number"
          min={0}
          step="0.01"
          autoFocus
          defaultValue={usage.budget_cents === null ? '' : usage.budget_cents / 100}
          hint="Empty: no limit."
        />
      }
    />
  )
}
