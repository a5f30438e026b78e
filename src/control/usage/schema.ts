import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, double, int64, nullable, oneOf, resource, text } from '../http/types.ts'

export const budgetStates = ['none', 'fine', 'warned', 'grace', 'capped'] as const

export const Usage = resource(
  'Usage',
  {
    month: text({ description: 'Month (UTC) that the usage is for, as `YYYY-MM`.', examples: ['2026-03'] }),
    vcpu_seconds: double({
      description:
        "vCPU seconds of the project's VMs: their vCPUs, multiplied by the seconds for which they existed. Apps that are scaled to zero have no VM.",
      examples: [1_382_400],
    }),
    memory_mib_seconds: double({
      description:
        "MiB seconds of the project's VMs: their memory in MiB, multiplied by the seconds for which they existed.",
      examples: [1_415_577_600],
    }),
    storage_gb_months: double({
      description: "GB months of the project's volumes: 1 is a volume of 10^9 bytes that existed for 30 days.",
      examples: [12.5],
    }),
    egress_bytes: int64({ description: 'Bytes that the VMs of the project sent.', examples: [48_318_382_080] }),
    cost_cents: double({
      description: 'Cost so far in cents, with fractions, at the prices of the installation; 0 if it has no prices.',
      examples: [1_241.5],
    }),
    estimate_cents: double({
      description: 'Projected cost of the whole month in cents, if usage continues at the same rate.',
      examples: [2_748.3],
    }),
    budget_cents: nullable(
      int64({ description: 'Monthly budget of the project in cents; null if there is no budget.', examples: [5_000] }),
    ),
    budget_state: oneOf(budgetStates, {
      description:
        'State of the budget in the current month: `none` (no budget), `fine`, `warned` (80 % used), `grace` (used up; apps keep running for a grace period that the operator configures) or `capped` (apps are scaled to zero, and deployments are refused until the budget is raised or the month ends).',
      examples: ['fine'],
    }),
    budget_changed_at: nullable(
      dateTime({
        description: 'When `budget_state` last changed, or when the month began; null if there is no budget.',
      }),
    ),
  },
  { description: 'Usage of a project in a month, with its cost and budget.' },
)
export type Usage = Static<typeof Usage>

const shared = { tag: 'Billing', auth: 'bearer', project: 'selected', addition: true } as const

export const usageOperations = operations({
  getUsage: {
    method: 'GET',
    path: '/v1/billing/usage',
    summary: 'Get the usage of a month',
    description:
      'Returns the usage of the project in a month, its cost, and the state of the budget. Compute is counted up to the request; volumes and traffic are counted every 15 seconds; builds are free. Usage is retained for about a year.',
    ...shared,
    scope: 'read',
    query: Type.Object({
      month: Type.Optional(
        text({
          pattern: '^\\d{4}-(0[1-9]|1[0-2])$',
          'x-mote-pattern': 'a month such as 2026-01',
          description: 'Month (UTC), as `YYYY-MM`. Default: the current month.',
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
      'Limits the monthly cost of the project, and returns the usage of the current month. Members are notified at 80 % and at 100 % of the budget. After a grace period the apps are scaled to zero; nothing is deleted. Raising or removing the budget starts them again at once.',
    ...shared,
    scope: 'admin',
    body: resource(
      'SetBudgetRequest',
      {
        monthly_cents: nullable(
          int64({
            minimum: 0,
            maximum: 1_000_000_000,
            description: 'Monthly budget in cents; null to remove the budget.',
            examples: [5_000],
          }),
        ),
      },
      { description: 'The new monthly budget.' },
    ),
    answer: Usage,
  },
})
