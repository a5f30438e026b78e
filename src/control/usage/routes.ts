import type { Static } from 'typebox'
import type { Sql } from '../../db/db.ts'
import type { Deps } from '../base/deps.ts'
import { feature } from '../http/operation.ts'
import { lockProject } from '../projects/index.ts'
import { costCents, estimateCents, gbMonths, monthOf } from './rules.ts'
import { type Usage, usageOperations } from './schema.ts'
import * as store from './store.ts'
import { keepBudget } from './sweep.ts'

export const usageFeature = (deps: Pick<Deps, 'db' | 'config' | 'clock'>) =>
  feature(usageOperations, {
    getUsage: {
      read: async ({ project, query }) => viewUsage(deps, deps.db, project.id, deps.clock.now(), query.month),
    },
    setBudget: {
      write:
        async ({ project, body, audit }) =>
        async tx => {
          const now = deps.clock.now()
          await store.hold(tx, project.id)
          await lockProject(tx, project.id)
          await store.setBudget(tx, project.id, body.monthly_cents)
          await keepBudget(deps, tx, project.id, now)
          const details = { monthly_cents: body.monthly_cents }
          audit({ action: 'billing.budget_set', resourceType: 'billing', resourceId: project.id, details })
          return viewUsage(deps, tx, project.id, now)
        },
    },
  })

async function viewUsage(
  { config }: Pick<Deps, 'config'>,
  sql: Sql,
  projectId: string,
  now: Date,
  text?: string,
): Promise<Static<typeof Usage>> {
  const month = monthOf(now, text)
  const used = await store.used(sql, projectId, month, now)
  const budget = await store.budget(sql, projectId)
  const cost = costCents(used, config.prices)
  return {
    month: month.from.toISOString().slice(0, 7),
    vcpu_seconds: used.vcpuSeconds,
    memory_mib_seconds: used.memoryMibSeconds,
    storage_gb_months: gbMonths(used.storageMibSeconds),
    egress_bytes: used.egressBytes,
    cost_cents: cost,
    estimate_cents: estimateCents(cost, month, now),
    budget_cents: budget?.monthlyCents ?? null,
    budget_state: budget?.state ?? 'none',
    budget_changed_at: budget?.changedAt.toISOString() ?? null,
  }
}
