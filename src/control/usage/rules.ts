/** Computes the cost of usage and the state of budgets. The functions are pure. */
import { hours } from '../../lib/duration.ts'

export interface Amounts {
  readonly vcpuSeconds: number
  readonly memoryMibSeconds: number
  readonly storageMibSeconds: number
  readonly egressBytes: number
}

/** Prices in cents per unit. */
export interface Prices {
  readonly vcpuHour: number
  readonly gibHour: number
  readonly storageGbMonth: number
  readonly egressGb: number
}

export const monthSeconds = 30 * 86_400
const mib = 2 ** 20
const gb = 1e9

/** Converts MiB seconds of storage to GB months. A GB month is 10^9 bytes stored for 30 days. */
export const gbMonths = (mibSeconds: number) => (mibSeconds * mib) / gb / monthSeconds

export const costCents = (used: Amounts, price: Prices): number =>
  (used.vcpuSeconds / 3600) * price.vcpuHour +
  (used.memoryMibSeconds / 1024 / 3600) * price.gibHour +
  gbMonths(used.storageMibSeconds) * price.storageGbMonth +
  (used.egressBytes / gb) * price.egressGb

export interface Month {
  readonly from: Date
  readonly to: Date
}

/** Returns the start and end of the month `text` (YYYY-MM) in UTC; without `text`, those of the current month. */
export function monthOf(now: Date, text?: string): Month {
  const [year, month] =
    text === undefined
      ? [now.getUTCFullYear(), now.getUTCMonth()]
      : [Number(text.slice(0, 4)), Number(text.slice(5)) - 1]
  return { from: new Date(Date.UTC(year, month)), to: new Date(Date.UTC(year, month + 1)) }
}

/** Extrapolates the month's cost so far to the whole month. In the month's first hour, returns the cost so far. */
export function estimateCents(costSoFar: number, { from, to }: Month, now: Date): number {
  const passedMs = Math.min(now.getTime(), to.getTime()) - from.getTime()
  if (passedMs < hours(1)) return costSoFar
  return (costSoFar * (to.getTime() - from.getTime())) / passedMs
}

export type BudgetState = 'fine' | 'warned' | 'grace' | 'capped'

export interface BudgetFacts {
  readonly costCents: number
  readonly budgetCents: number
  readonly state: BudgetState
  /** Time at which the budget entered its state. */
  readonly changedAt: Date
}

const warnShare = 0.8

/**
 * Returns the next state of a budget. The cost of a month only grows, so the state can improve only if the budget is
 * raised or a new month begins. The grace period is granted once per month.
 */
export function budgetState(
  { costCents: cost, budgetCents: budget, state, changedAt }: BudgetFacts,
  now: Date,
  graceMs: number,
): BudgetState {
  if (cost < budget * warnShare) return 'fine'
  if (cost < budget) return 'warned'
  if (state === 'capped') return 'capped'
  if (state !== 'grace') return graceMs === 0 ? 'capped' : 'grace'
  return now.getTime() - changedAt.getTime() >= graceMs ? 'capped' : 'grace'
}
