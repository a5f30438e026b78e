/**
 * PostgreSQL plans every statement of the program. No statement may read rows that it neither returns nor changes, so
 * that its cost does not grow with the size of a table. A scan without an index condition is a violation; so is a
 * foreign key without an index, because every deletion would search the referencing table.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { describeEachPostgres, type TestDatabase, testDatabase } from './support/database.ts'

const statements = vi.hoisted(() => new Map<string, string>())
vi.mock('../src/db/db.ts', async original => ({
  ...(await original<typeof import('../src/db/db.ts')>()),
  statement: (name: string, text: string) => {
    statements.set(name, text)
    return { name, text }
  },
}))

/** Tables whose number of rows does not depend on tenants, with the reason. */
const smallTables: Readonly<Record<string, string>> = {
  audit_chain: 'one row',
  private_network: 'one row',
  installation_secret: 'one row',
  usage_mark: 'one row',
  own_registry: 'one row',
  history_mark: 'one row for each resolution',
  sweep_run: 'one row for each sweep of the program',
  host: 'computers of the operator',
  mesh_host: 'computers of the operator',
  bastion_key: 'one row for each gateway',
  runner: 'one row for each program that runs workflows',
  machine_poke: 'a queue: every row is work and is deleted with it',
  billing_sandbox_session: 'data of the sandbox billing provider',
  billing_sandbox_subscription: 'data of the sandbox billing provider',
  billing_sandbox_event: 'data of the sandbox billing provider',
}

/** Statements that read a whole table, and why that is correct. */
const wholeTable: Readonly<Record<string, string>> = {
  'auth.anyAccount': 'stops at the first row',
  'auth.otherAccounts': 'stops at the second row',
  'engine.release_dead':
    'an index on the lease would be written twice per step of every workflow, and this runs once every ten seconds',
  'installation_secret.samples': 'stops at the fifth row of each table, at the first start only',
  'engine.unknown_kinds': 'runs once, at the start of the program',
  'notifications.everybody': 'product news go to every account',
  'usage.budgets': 'the sweep returns every budget',
  'scm.orphanPreviews': 'the sweep checks every preview that still exists',
}

const notPlanned = new Set(['mote.savepoint', 'mote.release', 'mote.rollback'])

const src = join(import.meta.dirname, '../src')
for (const file of await readdir(src, { recursive: true })) {
  if (!file.endsWith('.ts') || file.includes('test')) continue
  if (/\bstatement[<(]/.test(await readFile(join(src, file), 'utf8'))) await import(join(src, file))
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Plan[]
}

/**
 * Prepares every statement on each supported PostgreSQL. Most other tests need only one, because the versions differ in
 * the syntax that they accept, hardly in its meaning.
 */
describeEachPostgres('every statement of the program', which => {
  it('is valid with the tables of the migrations', async () => {
    await using database = await testDatabase(which)
    const client = new pg.Client(database.url)
    await client.connect()
    const invalid: string[] = []
    for (const [name, text] of statements) {
      if (notPlanned.has(name)) continue
      await client.query(`PREPARE one AS ${text}`).then(
        () => client.query('DEALLOCATE one'),
        (error: unknown) => invalid.push(`${name}: ${String(error)}`),
      )
    }
    await client.end()
    expect(invalid).toEqual([])
  }, 60_000)
})

// On the embedded server only: the distribution's older PostgreSQL lacks EXPLAIN (GENERIC_PLAN).
describe('query plans', () => {
  let database: TestDatabase
  let client: pg.Client
  /** Names of partial indexes. Scanning all of one is fine, because its predicate selects the required rows. */
  let partial: ReadonlySet<string>

  beforeAll(async () => {
    database = await testDatabase('embedded')
    client = new pg.Client(database.url)
    await client.connect()
    await fill(client)
    // Disable the alternatives to index scans, because PostgreSQL would prefer them for small tables.
    for (const way of ['seqscan', 'hashjoin', 'mergejoin']) await client.query(`SET enable_${way} = off`)
    const { rows } = await client.query(
      `SELECT relname AS name FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indpred IS NOT NULL`,
    )
    partial = new Set(rows.map(row => row.name))
  }, 60_000)
  afterAll(async () => {
    await client.end()
    await database[Symbol.asyncDispose]()
  })

  it('the statements of the whole program are planned', () => {
    expect(statements.size).toBeGreaterThan(500)
    for (const name of [...Object.keys(wholeTable), ...notPlanned]) expect(statements.has(name), name).toBe(true)
  })

  it('use an index to find the rows that a statement returns or changes', async () => {
    const faults: string[] = []
    const needed = new Set<string>()
    for (const [name, text] of statements) {
      if (notPlanned.has(name)) continue
      const { rows } = await client.query(`EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${text}`)
      for (const scan of scansOf(rows[0]['QUERY PLAN'][0].Plan, partial)) {
        needed.add(name)
        if (!(name in wholeTable)) faults.push(`${name}: ${scan}`)
      }
    }
    expect(faults).toEqual([])
    expect(Object.keys(wholeTable).filter(name => !needed.has(name))).toEqual([])
  })

  it('reveal a statement that no index supports', async () => {
    const { rows } = await client.query('EXPLAIN (GENERIC_PLAN, FORMAT JSON) SELECT id FROM app WHERE git_url = $1')
    expect(scansOf(rows[0]['QUERY PLAN'][0].Plan, partial)).toHaveLength(1)
  })

  it('can use an index for each foreign key', async () => {
    const { rows } = await client.query(
      `SELECT format('%s: %s', conrelid::regclass, pg_get_constraintdef(oid)) AS missing FROM pg_constraint
       WHERE contype = 'f' AND NOT EXISTS (
         SELECT FROM pg_index WHERE indrelid = conrelid AND (indkey::int2[])[0:cardinality(conkey) - 1] @> conkey)`,
    )
    expect(rows.map(row => row.missing)).toEqual([])
  })
})

/** Returns scans of growing tables that have neither an index condition nor a LIMIT in index order. */
function scansOf(plan: Plan, partial: ReadonlySet<string>, limited = false): string[] {
  const { 'Node Type': type, 'Relation Name': table, 'Index Name': index = '', 'Index Cond': condition } = plan
  const isBounded =
    table === undefined ||
    table in smallTables ||
    !type.endsWith('Scan') ||
    type === 'Bitmap Heap Scan' ||
    condition !== undefined ||
    partial.has(index) ||
    (limited && index !== '')
  const inner = (plan.Plans ?? []).flatMap(child => scansOf(child, partial, limited || type === 'Limit'))
  return isBounded ? inner : [`${type} of ${table}`, ...inner]
}

const rowsEach = 2000

/**
 * Inserts rows into every table. The n-th value of a type is the same in all tables, so that each join finds one row.
 */
async function fill(client: pg.Client): Promise<void> {
  await client.query('SET session_replication_role = replica')
  const { rows: checks } = await client.query(
    `SELECT conrelid::regclass::text AS "table", conname AS name, pg_get_constraintdef(con.oid) AS text,
       (SELECT attname FROM pg_attribute WHERE attrelid = conrelid AND conkey = ARRAY[attnum]) AS only
     FROM pg_constraint con WHERE contype = 'c' AND connamespace = 'public'::regnamespace`,
  )
  /**
   * SQL expressions for columns with an enumerated CHECK constraint, such as states: cycle through the allowed values.
   */
  const words = new Map<string, string>()
  for (const { table, name, text, only } of checks) {
    const [, list] = /= ANY \(\(?ARRAY\[([^\]]*)\]/.exec(text) ?? []
    if (list && only) words.set(`${table}.${only}`, `(ARRAY[${list}])[1 + g % ${list.split(',').length}]`)
    await client.query(`ALTER TABLE ${table} DROP CONSTRAINT "${name}"`)
  }
  const { rows: columns } = await client.query(
    `SELECT attrelid::regclass::text AS "table", attname AS name, format_type(atttypid, NULL) AS type,
       NOT attnotnull AS "nullable"
     FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
     WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
       AND attgenerated = '' AND attidentity = ''`,
  )
  const tables = Map.groupBy(columns, column => String(column.table))
  await client.query(`TRUNCATE ${[...tables.keys()].join(', ')}`)
  for (const [table, mine] of tables) {
    if (smallTables[table] === 'one row') continue
    const values = mine.map(({ name, type, nullable }) => {
      const value = words.get(`${table}.${name}`) ?? valueOf(type)
      return nullable ? `CASE WHEN g % 2 = 0 THEN ${value} END` : value
    })
    const names = mine.map(({ name }) => `"${name}"`)
    await client.query(
      `INSERT INTO ${table} (${names.join(', ')}) SELECT ${values.join(', ')} FROM generate_series(1, ${rowsEach}) g`,
    )
  }
  await client.query('ANALYZE')
}

function valueOf(type: string): string {
  if (type.endsWith('[]')) return `ARRAY[${valueOf(type.slice(0, -2))}]::${type}`
  if (type === 'uuid') return `lpad(to_hex(g), 32, '0')::uuid`
  if (type === 'json' || type === 'jsonb') return `'{}'::${type}`
  if (type === 'boolean') return 'g % 2 = 0'
  if (type === 'bytea') return 'int4send(g)'
  if (type.startsWith('timestamp') || type === 'date') return `(now() - g * interval '1 minute')::${type}`
  if (type === 'interval') return `g * interval '1 minute'`
  if (type === 'inet' || type === 'cidr') return `('10.0.0.0'::inet + g)::${type}`
  return `g::text::${type}`
}
