import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, double, int64, nullable, oneOf, resource, text } from '../http/types.ts'

export const budgetStates = ['none', 'fine', 'warned', 'grace', 'capped'] as const

export const Usage = resource(
  'Usage',
  {
    month: text({ description: 'Month in UTC that the numbers are about, as `YYYY-MM`.', examples: ['2026-03'] }),
    vcpu_seconds: double({
      description: 'vCPUs of the VMs of the project, multiplied by the seconds they existed. Sleeping apps have no VM.',
      examples: [1_382_400],
    }),
    memory_mib_seconds: double({
      description: 'Memory of the VMs of the project in MiB, multiplied by the seconds they existed.',
      examples: [1_415_577_600],
    }),
    storage_gb_months: double({
      description: 'Size of the volumes over time: 1 is a volume of 10^9 bytes that existed for 30 days.',
      examples: [12.5],
    }),
    egress_bytes: int64({ description: 'Bytes that the VMs of the project sent.', examples: [48_318_382_080] }),
    cost_cents: double({
      description:
        'Cost so far in cents, at the prices of the installation, with fractions. 0 where nothing has a price.',
      examples: [1_241.5],
    }),
    estimate_cents: double({
      description: 'Cost of the whole month in cents, if the rest of it is like the part so far.',
      examples: [2_748.3],
    }),
    budget_cents: nullable(
      int64({ description: 'Monthly limit of the project in cents; null for no limit.', examples: [5_000] }),
    ),
    budget_state: oneOf(budgetStates, {
      description:
        'Where the current month stands: `none` (no budget), `fine`, `warned` (80 % used), `grace` (used up; apps go on for a time that the installation sets) or `capped` (apps sleep and deploys are refused until the budget is raised or the month ends).',
      examples: ['fine'],
    }),
    budget_changed_at: nullable(
      dateTime({ description: 'When `budget_state` last changed or the month began; null without a budget.' }),
    ),
  },
  { description: 'What a project used in a month, its cost, and its budget.' },
)
export type Usage = Static<typeof Usage>

const shared = { tag: 'Billing', auth: 'bearer', project: 'selected', addition: true } as const

export const usageOperations = operations({
  getUsage: {
    method: 'GET',
    path: '/v1/billing/usage',
    summary: 'Get usage of a month',
    description:
      'Returns what the project used in a month, what that costs and how it compares to the budget. Compute is counted to the moment of the request, volumes and traffic every 15 seconds; builds are free. Months stay for about a year.',
    ...shared,
    scope: 'read',
    query: Type.Object({
      month: Type.Optional(
        text({
          pattern: '^\\d{4}-(0[1-9]|1[0-2])$',
          'x-mote-pattern': 'a month such as 2026-01',
          description: 'Month in UTC, as `YYYY-MM`. Default: the current one.',
          examples: ['2026-03'],
        }),
      ),
    }),
    answer: Usage,
  },
  setBudget: {
    method: 'PUT',
    path: '/v1/billing/budget',
    summary: 'Set the monthly budget',
    description:
      'Limits what the project may cost in a month and returns the usage of the current one. Members are notified at 80 % and at 100 %; after a time of grace the apps sleep, and nothing is deleted. Raising or removing the budget wakes them at once.',
    ...shared,
    scope: 'admin',
    body: resource(
      'SetBudgetRequest',
      {
        monthly_cents: nullable(
          int64({
            minimum: 0,
            maximum: 1_000_000_000,
            description: 'Limit in cents; null for no limit.',
            examples: [5_000],
          }),
        ),
      },
      { description: 'New monthly budget.' },
    ),
    answer: Usage,
  },
})
