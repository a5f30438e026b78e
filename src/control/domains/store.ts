import { type Db, type Sql, type Tx, statement } from '../../db/db.ts'

/** State of a domain. `pending`: never verified. `lost`: was verified, but its TXT record is gone. */
export type DomainState = 'pending' | 'verified' | 'lost'

export interface Domain {
  readonly id: string
  readonly projectId: string
  readonly appId: string
  readonly name: string
  readonly token: string
  readonly state: DomainState
  readonly message: string | null
  readonly misses: number
  readonly checkedAt: Date | null
  readonly verifiedAt: Date | null
  readonly createdAt: Date
  /** Expiry of the certificate; null if there is none. */
  readonly certificateUntil: Date | null
  readonly certificateMessage: string | null
}
export interface DomainApp {
  readonly id: string
  readonly name: string
  readonly hostname: string
  readonly kind: 'web' | 'worker'
}

const columns = `d.id, d.project_id AS "projectId", d.app_id AS "appId", d.name, d.token, d.state, d.message, d.misses,
  d.checked_at AS "checkedAt", d.verified_at AS "verifiedAt", d.created_at AS "createdAt",
  (SELECT c.not_after FROM certificate c WHERE c.domain_id = d.id) AS "certificateUntil",
  (SELECT c.message FROM certificate c WHERE c.domain_id = d.id) AS "certificateMessage"`
const ownApp = `SELECT id, name, hostname, kind FROM app WHERE project_id = $1 AND name = $2 AND want = 'live' AND owner = 'user'`
const findApp = statement<DomainApp>('domains.app', ownApp)
const lockApp = statement<DomainApp>('domains.lockApp', `${ownApp} FOR UPDATE`)
const nameOfApp = statement<{ name: string }>('domains.appName', `SELECT name FROM app WHERE id = $1`)
const listDomains = statement<Domain>(
  'domains.list',
  `SELECT ${columns} FROM domain d WHERE d.app_id = $1 ORDER BY d.name`,
)
const byName = statement<Domain>(
  'domains.byName',
  `SELECT ${columns} FROM domain d WHERE d.app_id = $1 AND d.name = $2`,
)
const lockOne = statement<Domain>('domains.lock', `SELECT ${columns} FROM domain d WHERE d.id = $1 FOR UPDATE`)
const countDomains = statement<{ count: number }>(
  'domains.count',
  `SELECT count(*)::int AS count FROM domain WHERE app_id = $1`,
)
const insertDomain = statement<Domain>(
  'domains.insert',
  `INSERT INTO domain AS d (id, project_id, app_id, name, token) VALUES ($1, $2, $3, $4, $5) RETURNING ${columns}`,
)
const deleteDomain = statement('domains.delete', `DELETE FROM domain WHERE id = $1`)
const holderOf = statement<{ id: string; appId: string }>(
  'domains.holder',
  `SELECT id, app_id AS "appId" FROM domain WHERE name = $1 AND state = 'verified'`,
)
const lockName = statement(
  'domains.lockName',
  `SELECT pg_advisory_xact_lock(hashtextextended('domain ' || $1::text, 0))`,
)
const recordLook = statement<Domain>(
  'domains.record',
  `UPDATE domain d SET state = $2, misses = $3, message = $4, checked_at = now(),
     next_check_at = now() + $5::float8 * interval '1 millisecond',
     verified_at = CASE WHEN $2 = 'verified' AND state <> 'verified' THEN now() ELSE verified_at END
   WHERE id = $1 RETURNING ${columns}`,
)
const hasten = statement('domains.hasten', `UPDATE domain SET next_check_at = now() WHERE id = $1`)
const dueDomains = statement<Domain>(
  'domains.due',
  `SELECT ${columns} FROM domain d JOIN app a ON a.id = d.app_id AND a.want = 'live'
   WHERE d.next_check_at <= now() ORDER BY d.next_check_at LIMIT $1`,
)

export const app = (sql: Sql, projectId: string, name: string) => sql.maybe(findApp, [projectId, name])
export const lockedApp = (tx: Tx, projectId: string, name: string) => tx.maybe(lockApp, [projectId, name])
export const appName = async (tx: Tx, appId: string) => (await tx.one(nameOfApp, [appId])).name
export const list = (sql: Sql, appId: string) => sql.rows(listDomains, [appId])
export const find = (sql: Sql, appId: string, name: string) => sql.maybe(byName, [appId, name])
/** Finds the domain and locks it. Returns undefined if the domain was deleted in the meantime. */
export const lock = (tx: Tx, id: string) => tx.maybe(lockOne, [id])
export const count = async (tx: Tx, appId: string) => (await tx.one(countDomains, [appId])).count
export const insert = (tx: Tx, domain: Pick<Domain, 'id' | 'projectId' | 'appId' | 'name' | 'token'>) =>
  tx.one(insertDomain, [domain.id, domain.projectId, domain.appId, domain.name, domain.token])
export const remove = (tx: Tx, id: string) => tx.run(deleteDomain, [id])
/** Returns the verified domain with this name, and its app. Locks the name until the transaction ends. */
export async function holder(tx: Tx, name: string): Promise<{ id: string; appId: string } | undefined> {
  await tx.rows(lockName, [name])
  return tx.maybe(holderOf, [name])
}
export const record = (
  tx: Tx,
  id: string,
  to: {
    readonly state: DomainState
    readonly misses: number
    readonly message: string | null
    readonly nextCheckMs: number
  },
) => tx.one(recordLook, [id, to.state, to.misses, to.message, to.nextCheckMs])
export const checkSoon = (tx: Tx, id: string) => tx.run(hasten, [id])
export const due = (db: Db, limit: number) => db.rows(dueDomains, [limit])
