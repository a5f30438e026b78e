import { type Static, Type } from 'typebox'
import { operations } from '../http/operation.ts'
import { dateTime, double, int64, nullable, oneOf, resource, text } from '../http/types.ts'

export const budgetStates = ['none', 'fine', 'warned', 'grace', 'capped'] as const

export const Usage = resource('Usage', {
  month: text({ description: 'UTC, as YYYY-MM.' }),
  vcpu_seconds: double(),
  memory_mib_seconds: double(),
  storage_gb_months: double({ description: '10^9 bytes over 30 days.' }),
  egress_bytes: int64(),
  cost_cents: double({ description: 'So far, by the prices of the installation.' }),
  estimate_cents: double({ description: 'For the whole month, if it goes on as it was.' }),
  budget_cents: nullable(int64()),
  budget_state: oneOf(budgetStates, {
    description:
      '`warned` from 80 %, `grace` from 100 %, `capped` when the grace is over: apps sleep until more is allowed.',
  }),
  budget_changed_at: nullable(dateTime()),
})
export type Usage = Static<typeof Usage>

const shared = { tag: 'Billing', auth: 'bearer', project: 'selected', addition: true } as const

export const usageOperations = operations({
  getUsage: {
    method: 'GET',
    path: '/v1/billing/usage',
    summary: 'What the project used in a month, and what it will come to',
    ...shared,
    scope: 'read',
    query: Type.Object({
      month: Type.Optional(text({ pattern: '^\\d{4}-(0[1-9]|1[0-2])$', 'x-mote-pattern': 'a month such as 2026-01' })),
    }),
    answer: Usage,
  },
  setBudget: {
    method: 'PUT',
    path: '/v1/billing/budget',
    summary: 'How much the project may cost a month; null for no limit',
    ...shared,
    scope: 'admin',
    body: resource('SetBudgetRequest', { monthly_cents: nullable(int64({ minimum: 0, maximum: 1_000_000_000 })) }),
    answer: Usage,
  },
})
