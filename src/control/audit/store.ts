/**
 * Reads the audit log. Each statement exists in four variants (filtered by action, resource type, both or neither), so
 * that every filter can use an index.
 */
import { type Db, type Statement, statement } from '../../db/db.ts'
import { accountName } from '../http/account-name.ts'
import type { Window } from '../http/paging.ts'

export interface AuditRow {
  readonly id: string
  readonly userId: string
  /** Name or e-mail address of the account that caused the entry; null if the account does not exist. */
  readonly actor: string | null
  readonly action: string
  readonly resourceType: string
  readonly resourceId: string | null
  readonly details: unknown
  readonly ipAddress: string | null
  readonly createdAt: Date
}

/** The rows that a caller may read: those of the project and their own rows outside of any project. */
export interface AuditFilter {
  readonly projectId: string
  /**
   * Account whose own rows are returned in addition to the project's rows. Undefined: only the project's rows, as for a
   * token that is bound to the project.
   */
  readonly accountId: string | undefined
  readonly action: string | undefined
  readonly resourceType: string | undefined
}

type Variant = 'all' | 'byAction' | 'byResource' | 'byBoth'

const conditions = {
  all: '',
  byAction: 'AND action = $3',
  byResource: 'AND resource_type = $3',
  byBoth: 'AND action = $3 AND resource_type = $4',
} as const satisfies Record<Variant, string>

const perVariant = <Row>(make: (variant: Variant) => Statement<Row>): Readonly<Record<Variant, Statement<Row>>> => ({
  all: make('all'),
  byAction: make('byAction'),
  byResource: make('byResource'),
  byBoth: make('byBoth'),
})

const columns = `id, account_id AS "userId", action, resource_type AS "resourceType", resource_id AS "resourceId", details,
  ip_address AS "ipAddress", created_at AS "createdAt"`

// Reads the rows of the project and those of the account separately, each by an index and only up to the end of the
// page; the caller merges them. A condition `scope_id IN (...)` would sort all rows of both.
const walk = (scope: string, variant: Variant, reach: string, before: string) =>
  `(SELECT ${columns} FROM audit_log WHERE scope_id = ${scope} ${conditions[variant]} AND id < ${before}::uuid
     ORDER BY id DESC LIMIT ${reach})`

const firstFree = { all: 3, byAction: 4, byResource: 4, byBoth: 5 } as const satisfies Record<Variant, number>

const pages = perVariant<AuditRow>(variant => {
  const limit = `$${firstFree[variant]}`
  const offset = `$${firstFree[variant] + 1}`
  const before = `$${firstFree[variant] + 2}`
  const reach = `${limit}::bigint + ${offset}::bigint`
  return statement(
    `audit.page.${variant}`,
    `SELECT page.*, (SELECT ${accountName('who')} FROM account who WHERE who.id = page."userId") AS actor
     FROM (${walk('$1::uuid', variant, reach, before)} UNION ALL ${walk('$2::uuid', variant, reach, before)}
       ORDER BY id DESC LIMIT ${limit}::bigint OFFSET ${offset}::bigint) page ORDER BY id DESC`,
  )
})

// Adds the stored number of sealed rows and the counted number of the few unsealed ones. The sealer changes both
// numbers in one transaction, and this statement reads one snapshot, so no row is counted twice or missed.
const totals = perVariant<{ total: number }>(variant =>
  statement(
    `audit.total.${variant}`,
    `SELECT (
       (SELECT coalesce(sum(rows), 0) FROM audit_count
        WHERE scope_id IN ($1::uuid, $2::uuid) ${conditions[variant]})
       + (SELECT count(*) FROM audit_log
          WHERE position IS NULL AND scope_id IN ($1::uuid, $2::uuid) ${conditions[variant]}))::bigint AS total`,
  ),
)

function variantOf({ action, resourceType }: AuditFilter): Variant {
  if (action !== undefined) return resourceType === undefined ? 'byAction' : 'byBoth'
  return resourceType === undefined ? 'all' : 'byResource'
}

/** Scope id that matches no row: ids of accounts and projects are UUIDs of version 7. */
const nobody = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const paramsOf = (f: AuditFilter) => [
  f.projectId,
  f.accountId ?? nobody,
  ...[f.action, f.resourceType].filter(value => value !== undefined),
]

export const auditPage = (db: Db, filter: AuditFilter, { take, skip, before }: Window) =>
  db.rows(pages[variantOf(filter)], [...paramsOf(filter), take, skip, before])
/** Returns the exact number of matching audit rows, however many there are. */
export const auditTotal = async (db: Db, filter: AuditFilter) =>
  (await db.one(totals[variantOf(filter)], paramsOf(filter))).total
