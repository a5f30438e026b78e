/**
 * A canary: a new version that gets a share of the requests, next to the active version, before it gets all of them.
 */
import { type Tx, statement } from '../../db/db.ts'
import { poke, pokeMany } from '../../engine/runner.ts'
import { seconds } from '../../lib/duration.ts'
import { refreshRoute } from '../routing/index.ts'
import { announceById } from './announce.ts'
import type { CanarySettings } from './canary-facts.ts'
import type { Deployment } from './store.ts'
import * as store from './store.ts'

const startOne = statement(
  'deployments.startCanary',
  `UPDATE deployment SET canary_state = 'running', canary_started_at = now(), canary_ended_at = NULL, canary_requests = 0, canary_failed = 0,
     updated_at = now() WHERE id = $1`,
)
const endOne = statement(
  'deployments.endCanary',
  `UPDATE deployment SET canary_state = $2, canary_ended_at = now(), updated_at = now() WHERE id = $1 AND canary_state = 'running'`,
)
const addCounts = statement<{ id: string }>(
  'deployments.addCanaryCounts',
  `WITH given AS (SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS t(id, requests, failed)),
     held AS (SELECT d.id FROM deployment d WHERE d.id IN (SELECT id FROM given) AND d.canary_state = 'running' ORDER BY d.id FOR NO KEY UPDATE)
   UPDATE deployment d SET canary_requests = canary_requests + given.requests, canary_failed = canary_failed + given.failed
   FROM given JOIN held ON held.id = given.id WHERE d.id = given.id RETURNING d.id`,
)

/**
 * Returns whether the deployment starts as a canary. That requires another version that serves and may run at the same
 * time. A rollback never starts as a canary, because it must be fast.
 */
export const startsAsCanary = (d: Deployment): d is Deployment & { readonly canary: CanarySettings } =>
  d.canary !== null &&
  d.triggerSource !== 'rollback' &&
  d.activeDeploymentId !== null &&
  d.activeDeploymentId !== d.id &&
  d.scaleState === 'active' &&
  !d.exclusive

export const startCanary = (d: Deployment) => async (tx: Tx) => {
  await tx.run(startOne, [d.id])
  await pokeMany(tx, 'deployment', await store.othersAlive(tx, d.appId, d.id))
  await refreshRoute(tx, d.appId)
  await announceById(tx, d.id)
}

export const endCanary = (tx: Tx, id: string, state: 'passed' | 'failed' | 'cancelled') => tx.run(endOne, [id, state])

/** Adds the request counts that a gateway reported for canaries. Counts of a canary that has ended are ignored. */
export async function addCanaryCounts(
  tx: Tx,
  counts: readonly { readonly deploymentId: string; readonly requests: number; readonly failed: number }[],
): Promise<void> {
  if (counts.length === 0) return
  const changed = await tx.rows(addCounts, [
    counts.map(one => one.deploymentId),
    counts.map(one => one.requests),
    counts.map(one => one.failed),
  ])
  for (const { id } of changed.toSorted((a, b) => (a.id < b.id ? -1 : 1))) await poke(tx, 'deployment', id)
}

export const canaryEndsAt = (settings: CanarySettings, startedAt: Date) =>
  new Date(startedAt.getTime() + seconds(settings.seconds))

/** Returns the reason for failing the canary if too many of its requests failed; otherwise undefined. */
export function tooManyErrors(settings: CanarySettings, requests: number, failed: number): string | undefined {
  if (requests < settings.min_requests || failed * 100 <= settings.max_error_percent * requests) return undefined
  const percent = Math.round((failed * 1000) / requests) / 10
  return `canary: ${failed} of ${requests} requests failed (${percent < 10 ? percent : Math.round(percent)} %), more than ${settings.max_error_percent} %`
}
