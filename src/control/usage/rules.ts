/** What usage costs, and what a budget says to that. Pure. */
import { hours } from '../../lib/duration.ts'

export interface Amounts {
  readonly vcpuSeconds: number
  readonly memoryMibSeconds: number
  readonly storageMibSeconds: number
  readonly egressBytes: number
}

/** Cents. */
export interface Prices {
  readonly vcpuHour: number
  readonly gibHour: number
  readonly storageGbMonth: number
  readonly egressGb: number
}

export const monthSeconds = 30 * 86_400
const mib = 2 ** 20
const gb = 1e9

/** 10^9 bytes kept for 30 days. */
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

/** The month of `text` (YYYY-MM), UTC; without it the one that `now` is in. */
export function monthOf(now: Date, text?: string): Month {
  const [year, month] =
    text === undefined
      ? [now.getUTCFullYear(), now.getUTCMonth()]
      : [Number(text.slice(0, 4)), Number(text.slice(5)) - 1]
  return { from: new Date(Date.UTC(year, month)), to: new Date(Date.UTC(year, month + 1)) }
}

/** What the month will cost if the rest of it is as the part so far; of its first hour nothing is concluded. */
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
  /** Since when it is in that state. */
  readonly changedAt: Date
}

const warnShare = 0.8

/** The state that follows. It only gets better when more is allowed, or a month begins; the grace is given once. */
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
