import { invalidField } from '../http/errors.ts'

/** Id of the page server in installations that have at most one. */
export const defaultStorageNode = 1

interface Engine {
  readonly versions: readonly number[]
  readonly port: number
  /** Name of the image that `mote image build` creates; the tag is the version. */
  readonly image: string
}

/**
 * Supported database engines. An additional engine needs an entry here, and an image that works like the existing ones.
 */
export const engines = {
  postgres: { versions: [14, 15, 16, 17], port: 5432, image: 'oci:postgres' },
} as const satisfies Record<string, Engine>
export type EngineName = keyof typeof engines

export const isEngine = (name: string): name is EngineName => Object.hasOwn(engines, name)

/** The role that owns a new cluster and its first database. */
export const ownerRole = 'mote'

export interface DatabaseShape {
  readonly engine: EngineName
  readonly version: number
  readonly vcpus: number
  readonly memoryMib: number
  readonly diskMib: number
  readonly settings: Readonly<Record<string, string>>
}

export interface ShapeRequest {
  readonly engine: string
  readonly postgres_version?: number | null
  readonly vcpus?: number | null
  readonly memory_mib?: number | null
  readonly disk_mib?: number | null
  readonly settings?: Readonly<Record<string, string>> | null
}

const memorySizesMib = [512, 1024, 2048, 4096, 8192, 16_384]

/**
 * Returns the engine, version and sizes that a request asks for, with defaults for absent fields.
 * @param offered versions whose image this installation has, the default first
 * @throws ApiError 400 naming the field
 */
export function shapeOf(request: ShapeRequest, offered: readonly number[]): DatabaseShape {
  const { engine } = request
  if (!isEngine(engine)) throw invalidField('engine', `must be one of: ${Object.keys(engines).join(', ')}`)
  const version = request.postgres_version ?? offered[0] ?? 15
  if (!offered.includes(version))
    throw invalidField(
      'postgres_version',
      `must be one of: ${offered.join(', ')} (the versions that this installation offers)`,
    )
  return {
    engine,
    version,
    ...sizesOf(request, { vcpus: 1, memoryMib: 512, diskMib: 1024 }),
    settings: checkSettings(request.settings ?? {}),
  }
}

type Sizes = Pick<DatabaseShape, 'vcpus' | 'memoryMib' | 'diskMib'>

/** Returns the sizes that a request asks for, with defaults for absent fields. @throws ApiError 400 naming the field */
export function sizesOf(request: Omit<ShapeRequest, 'engine'>, now: Sizes): Sizes {
  const vcpus = request.vcpus ?? now.vcpus
  if (vcpus < 1 || vcpus > 4) throw invalidField('vcpus', 'must be 1, 2, 3 or 4')
  const memoryMib = request.memory_mib ?? now.memoryMib
  if (!memorySizesMib.includes(memoryMib))
    throw invalidField('memory_mib', `must be one of: ${memorySizesMib.join(', ')}`)
  const diskMib = request.disk_mib ?? now.diskMib
  if (diskMib < 512 || diskMib > 1_048_576) throw invalidField('disk_mib', 'must be from 512 to 1048576')
  return { vcpus, memoryMib, diskMib }
}

type SettingRule = 'boolean' | 'memory' | 'time' | 'integer' | 'number' | 'text' | readonly string[]

/**
 * Settings that users may change. None of them can disable durability, archiving, TLS or the password, read a file of
 * the VM, or run a program in it.
 */
export const allowedSettings = {
  autovacuum_analyze_scale_factor: 'number',
  autovacuum_max_workers: 'integer',
  autovacuum_naptime: 'time',
  autovacuum_vacuum_cost_limit: 'integer',
  autovacuum_vacuum_scale_factor: 'number',
  checkpoint_timeout: 'time',
  client_min_messages: ['debug1', 'log', 'notice', 'warning', 'error'],
  datestyle: 'text',
  deadlock_timeout: 'time',
  default_statistics_target: 'integer',
  default_transaction_isolation: ['read committed', 'repeatable read', 'serializable'],
  effective_cache_size: 'memory',
  effective_io_concurrency: 'integer',
  idle_in_transaction_session_timeout: 'time',
  idle_session_timeout: 'time',
  intervalstyle: ['postgres', 'postgres_verbose', 'sql_standard', 'iso_8601'],
  lock_timeout: 'time',
  log_connections: 'boolean',
  log_disconnections: 'boolean',
  log_lock_waits: 'boolean',
  log_min_duration_statement: 'time',
  log_statement: ['none', 'ddl', 'mod', 'all'],
  maintenance_work_mem: 'memory',
  max_connections: 'integer',
  max_locks_per_transaction: 'integer',
  max_parallel_workers: 'integer',
  max_parallel_workers_per_gather: 'integer',
  max_wal_size: 'memory',
  max_worker_processes: 'integer',
  min_wal_size: 'memory',
  random_page_cost: 'number',
  search_path: 'text',
  seq_page_cost: 'number',
  shared_buffers: 'memory',
  statement_timeout: 'time',
  temp_buffers: 'memory',
  timezone: 'text',
  track_io_timing: 'boolean',
  wal_compression: 'boolean',
  work_mem: 'memory',
} as const satisfies Record<string, SettingRule>

const forms = {
  boolean: { pattern: /^(?:on|off|true|false)$/, means: 'on or off' },
  memory: { pattern: /^\d{1,9}(?:kB|MB|GB|TB)?$/, means: 'a size such as 64MB' },
  time: { pattern: /^-?\d{1,9}(?:us|ms|s|min|h|d)?$/, means: 'a duration such as 30s' },
  integer: { pattern: /^-?\d{1,9}$/, means: 'a whole number' },
  number: { pattern: /^-?\d{1,9}(?:\.\d{1,9})?$/, means: 'a number' },
  text: { pattern: /^[\w ,/+:".$-]{1,200}$/, means: 'plain text of at most 200 characters' },
} as const

const isAllowed = (name: string): name is keyof typeof allowedSettings => Object.hasOwn(allowedSettings, name)

/** Checks the settings of a database. @throws ApiError 400 naming the setting and its valid values */
export function checkSettings(settings: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(settings)) {
    if (!isAllowed(name))
      throw invalidField(`settings/${name}`, `cannot be set; these can: ${Object.keys(allowedSettings).join(', ')}`)
    const rule: SettingRule = allowedSettings[name]
    const fits = typeof rule === 'string' ? forms[rule].pattern.test(value) : rule.includes(value)
    if (!fits)
      throw invalidField(
        `settings/${name}`,
        `must be ${typeof rule === 'string' ? forms[rule].means : `one of: ${rule.join(', ')}`}`,
      )
  }
  return settings
}

/** Renders lines of postgresql.conf. The values were checked: none contains a quote or a line break. */
export const configLines = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([name, value]) => `${name} = '${value}'`)
    .join('\n')

/**
 * Returns for each tenant whether the given generation is the current one. An unknown tenant has no valid generation.
 */
export function validOf(
  asked: readonly { readonly id: string; readonly gen: number }[],
  known: readonly { readonly id: string; readonly gen: number }[],
): { id: string; valid: boolean }[] {
  const current = new Map(known.map(({ id, gen }) => [id, gen]))
  return asked.map(({ id, gen }) => ({ id, valid: current.get(tenantOf(id)) === gen }))
}

/**
 * Returns the tenant id of a page server's shard id. `<32 hex>-<shard><count>` is one of several shards of a tenant.
 */
const tenantOf = (id: string) => id.replace(/-[0-9a-f]{4}$/, '')

export type BranchPhase =
  | 'preparing'
  | 'starting'
  | 'running'
  | 'standing'
  | 'halting'
  | 'keeping'
  | 'rewinding'
  | 'replaying'
  | 'undoing'
  | 'resting'
  | 'failing'
  | 'deleting'

export interface BranchFacts {
  readonly databaseWant: 'running' | 'suspended' | 'deleted'
  readonly want: 'live' | 'deleted'
  readonly phase: BranchPhase | null
  readonly restores: number
  readonly restored: number
  /** When a client could connect to the branch for the first time. */
  readonly readyAt: Date | null
  readonly healthy: boolean
  readonly answers: boolean
  /**
   * Revision of the password that the branch's server has. `database.passwordRevision` is that of the password shown to
   * users.
   */
  readonly passwordRevision: number
  readonly database: { readonly passwordRevision: number }
}

/** Returns false while the branch's server still has the password from before a rotation. */
export const knowsPassword = (b: Pick<BranchFacts, 'passwordRevision' | 'database'>): boolean =>
  b.passwordRevision >= b.database.passwordRevision

export type DatabaseStatus =
  | 'creating'
  | 'running'
  | 'suspended'
  | 'restarting'
  | 'restoring'
  | 'unavailable'
  | 'failed'
  | 'deleting'

/**
 * Returns the status of a branch, and so of the database whose current branch it is. `running`: the branch accepts
 * connections.
 */
export function statusOf(b: BranchFacts): DatabaseStatus {
  if (b.want === 'deleted' || b.databaseWant === 'deleted' || b.phase === 'deleting') return 'deleting'
  if (b.phase === 'failing' || b.phase === null) return 'failed'
  if (b.restores > b.restored || b.phase === 'keeping' || b.phase === 'rewinding') return 'restoring'
  if (b.databaseWant === 'suspended') return b.phase === 'resting' ? 'suspended' : 'restarting'
  if (b.phase === 'running') return b.healthy && b.answers && knowsPassword(b) ? 'running' : 'unavailable'
  return b.readyAt === null ? 'creating' : 'restarting'
}

export type BranchStatus = Exclude<DatabaseStatus, 'running'> | 'ready'

/** Returns the status of a branch that users see: the same as for its database, but `ready` instead of `running`. */
export function branchStatusOf(b: BranchFacts): BranchStatus {
  const status = statusOf(b)
  return status === 'running' ? 'ready' : status
}

/** Returns the host name of a database or branch. Only the bastion resolves it. */
export const hostOf = (database: string, projectSlug: string, branch: string | undefined) =>
  `${branch === undefined ? '' : `${branch}.`}${database}.${projectSlug}.db.internal`

/**
 * Returns the local port of the SSH tunnel to a database. It is always the same for one database, and rarely equal to
 * that of another.
 */
export function localPortOf(id: string): number {
  return 20_000 + (Number.parseInt(id.replaceAll('-', '').slice(-6), 16) % 10_000)
}

/** Converts an instant to PostgreSQL's format. @throws ApiError 400 if it is invalid or in the future */
export function momentOf(text: string, now: Date): string {
  const at = new Date(text)
  if (Number.isNaN(at.getTime())) throw invalidField('at', 'must be an instant such as 2026-01-31T12:00:00Z')
  if (at > now) throw invalidField('at', 'must not be in the future')
  return at.toISOString().replace('T', ' ').replace('Z', '+00')
}
