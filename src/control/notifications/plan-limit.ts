import { type Tx, statement } from '../../db/db.ts'
import { hours } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import type { Refusal } from '../http/ports.ts'
import { notify, notifyAccount } from './notify.ts'

/** Minimum time between two notifications per project and limit, regardless of the number of refused requests. */
const onceMs = hours(1)
const mostCached = 10_000

// False if another transaction holds the lock. That one writes the same notification, so there is no need to wait.
const alone = statement<{ alone: boolean }>(
  'notifications.planLimitTurn',
  `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS alone`,
)
const reported = statement<{ reported: boolean }>(
  'notifications.planLimitTold',
  `SELECT EXISTS (SELECT FROM notification WHERE kind = 'plan.limit_reached' AND metadata->>'limit' = $2
     AND CASE WHEN $1::uuid IS NULL THEN account_id = $3 ELSE project_id = $1 END
     AND created_at > now() - $4::float8 * interval '1 millisecond') AS reported`,
)

/**
 * Returns a function that notifies the members of a project (or an account, for limits of its own) that a request was
 * refused because of the plan. It uses a transaction of its own, because that of the request is rolled back. It never
 * throws, because the request must still get its error response.
 */
export function planLimitNotices(deps: Pick<Deps, 'db' | 'clock' | 'log'>): (refusal: Refusal) => Promise<void> {
  // Time of the last notification per project and limit. This cache only saves queries; several control planes
  // coordinate through the database.
  const recent = new Map<string, number>()
  return async refusal => {
    const { error, projectId, userId } = refusal
    const limit: unknown = error.extra?.['limit']
    if (error.code !== 'plan_limit_exceeded' || typeof limit !== 'string') return
    const key = `plan-limit ${projectId ?? userId} ${limit}`
    const nowMs = deps.clock.monotonicMs()
    if (nowMs - (recent.get(key) ?? -Infinity) < onceMs) return
    if (recent.size >= mostCached) recent.clear()
    try {
      await deps.db.tx(async tx => {
        if (!(await tx.one(alone, [key])).alone) return
        if ((await tx.one(reported, [projectId ?? null, limit, userId, onceMs])).reported) return
        await report(tx, refusal, limit)
      })
      recent.set(key, nowMs)
    } catch (cause) {
      deps.log.warn({ err: cause, project_id: projectId }, 'could not notify of a plan limit')
    }
  }
}

async function report(tx: Tx, { error, projectId, userId }: Refusal, limit: string): Promise<void> {
  const notice = {
    kind: 'plan.limit_reached',
    title: 'You have reached a limit of your plan',
    body: error.message,
    entityName: limit,
    resourceId: limit,
    route: '/billing',
    metadata: { ...error.extra },
  } as const
  if (projectId === undefined) await notifyAccount(tx, { ...notice, accountId: userId })
  else await notify(tx, { ...notice, projectId })
}
