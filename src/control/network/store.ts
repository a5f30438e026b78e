import type { FirewallObserved } from '../../contract/network.ts'
import { type Sql, type Tx, statement } from '../../db/db.ts'

/** The content of a security rule. */
export interface RuleShape {
  readonly direction: 'inbound' | 'outbound'
  readonly protocol: 'tcp' | 'udp' | 'icmp' | 'any'
  readonly portStart: number
  readonly portEnd: number
  readonly action: 'allow' | 'deny'
  readonly cidr: string | null
  readonly priority: number
}

export interface Rule extends RuleShape {
  readonly id: string
  readonly appId: string
  readonly createdAt: Date
  readonly updatedAt: Date
}

export interface RuledApp {
  readonly id: string
  readonly name: string
  readonly version: number
}

const appColumns = `id, name, firewall_version AS version`
const findApp = statement<RuledApp>(
  'network.app',
  `SELECT ${appColumns} FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`,
)
const lockApp = statement<RuledApp>(
  'network.lockApp',
  `SELECT ${appColumns} FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user' FOR UPDATE`,
)

const columns = `id, app_id AS "appId", direction, protocol, port_start AS "portStart", port_end AS "portEnd", action, cidr,
  priority, created_at AS "createdAt", updated_at AS "updatedAt"`
const listRules = statement<Rule>(
  'network.rules',
  `SELECT ${columns} FROM security_rule WHERE app_id = $1 ORDER BY priority, id`,
)
const extent = statement<{ count: number; last: number | null }>(
  'network.extent',
  `SELECT count(*)::int AS count, max(priority) AS last FROM security_rule WHERE app_id = $1`,
)
const insertRule = statement<Rule>(
  'network.insertRule',
  `INSERT INTO security_rule (id, project_id, app_id, direction, protocol, port_start, port_end, action, cidr, priority)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING ${columns}`,
)
const deleteRule = statement('network.deleteRule', `DELETE FROM security_rule WHERE app_id = $1 AND id = $2`)
const bumpVersion = statement<{ version: number }>(
  'network.bump',
  `UPDATE app SET firewall_version = firewall_version + 1 WHERE id = $1 RETURNING firewall_version AS version`,
)
// Raises the generation of the app's VMs, so that their hosts get the changed rules.
const bumpVms = statement<{ id: string }>(
  'network.bumpVms',
  `UPDATE vm SET generation = generation + 1 WHERE app_id = $1 AND want <> 'absent' RETURNING id`,
)
const observedFirewalls = statement<{ observed: FirewallObserved | null }>(
  'network.seen',
  `SELECT seen_firewall AS observed FROM vm WHERE app_id = $1 AND want <> 'absent' ORDER BY id`,
)

export const app = (sql: Sql, projectId: string, name: string) => sql.maybe(findApp, [projectId, name])
/** Locks the app's row, to serialize changes of the app's security rules. */
export const lock = (tx: Tx, projectId: string, name: string) => tx.maybe(lockApp, [projectId, name])
/** Returns the rules in the order in which they apply. */
export const rules = (sql: Sql, appId: string) => sql.rows(listRules, [appId])
/** Returns the number of an app's security rules and the highest priority. */
export const extentOf = (tx: Tx, appId: string) => tx.one(extent, [appId])
export const insert = (tx: Tx, id: string, projectId: string, appId: string, rule: RuleShape) =>
  tx.one(insertRule, [
    ...[id, projectId, appId, rule.direction, rule.protocol, rule.portStart, rule.portEnd, rule.action],
    ...[rule.cidr, rule.priority],
  ])
/** Deletes a security rule. Returns false if there was no such rule. */
export const remove = async (tx: Tx, appId: string, id: string) => (await tx.run(deleteRule, [appId, id])) === 1
/** Raises the version of the app's rules and the generation of its VMs. Returns the new version and the VM ids. */
export async function raise(tx: Tx, appId: string): Promise<{ version: number; vmIds: string[] }> {
  const { version } = await tx.one(bumpVersion, [appId])
  return { version, vmIds: (await tx.rows(bumpVms, [appId])).map(vm => vm.id) }
}
/** Returns, for each VM of the app, the newest report about its security rules; null for a VM without a report. */
export const firewalls = async (sql: Sql, appId: string) =>
  (await sql.rows(observedFirewalls, [appId])).map(row => row.observed)
