/** Counts the requests of each deployment since it first served, as reported by gateways. */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { VmCounts } from '../../contract/request-counts.ts'

// Deployments are locked in the order of their ids, before their counts, because a deletion uses the same order
// (docs/engine.md).
const addCounts = statement(
  'deployments.addRequests',
  `WITH given AS (SELECT v.deployment_id AS id, sum(t.requests) AS requests, sum(t.failed) AS failed
       FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS t(vm_id, requests, failed)
       JOIN vm v ON v.id = t.vm_id AND v.run_id IS NULL WHERE v.deployment_id IS NOT NULL GROUP BY v.deployment_id),
     held AS (SELECT d.id FROM deployment d WHERE d.id IN (SELECT id FROM given) ORDER BY d.id FOR KEY SHARE)
   INSERT INTO deployment_requests AS c (deployment_id, requests, failed)
   SELECT given.id, given.requests, given.failed FROM given JOIN held ON held.id = given.id ORDER BY given.id
   ON CONFLICT (deployment_id) DO UPDATE SET requests = c.requests + excluded.requests, failed = c.failed + excluded.failed`,
)

/** Adds the request counts that a gateway reported. Counts of VMs that no longer exist are ignored. */
export async function addVmCounts(tx: Tx, counts: readonly VmCounts[]): Promise<void> {
  if (counts.length === 0) return
  await tx.run(addCounts, [counts.map(one => one.vmId), counts.map(one => one.requests), counts.map(one => one.failed)])
}

export interface DeploymentRequests {
  readonly requests: number
  readonly failedRequests: number
}

const countsOf = statement<DeploymentRequests>(
  'deployments.requests',
  `SELECT requests::float8 AS requests, failed::float8 AS "failedRequests" FROM deployment_requests WHERE deployment_id = $1`,
)

export const requestsOf = async (sql: Sql, deploymentId: string): Promise<DeploymentRequests> =>
  (await sql.maybe(countsOf, [deploymentId])) ?? { requests: 0, failedRequests: 0 }
