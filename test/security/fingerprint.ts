/** Hashes each table of a database, to detect whether a request changed anything. */
import pg from 'pg'

/** Tables without a hash: counters of rejected sign-ins, which change by design, and the list of migrations. */
const ignored = new Set(['login_backoff', 'schema_migration'])

export interface Fingerprints {
  /** Returns a hash of each table's rows, without rows that contain one of the ids in `except`. */
  take(except?: readonly string[]): Promise<Readonly<Record<string, string>>>
  close(): Promise<void>
}

export async function fingerprints(url: string): Promise<Fingerprints> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`,
  )
  const tables = rows.map(row => row.name).filter(name => !ignored.has(name))
  const parts = tables.map(name => {
    const table = pg.escapeIdentifier(name)
    return `SELECT ${pg.escapeLiteral(name)} AS name, count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') AS hash
      FROM ${table} t WHERE NOT EXISTS (SELECT 1 FROM unnest($1::text[]) AS id WHERE t::text LIKE '%' || id || '%')`
  })
  return {
    async take(except = []) {
      const found = await client.query<{ name: string; hash: string }>(parts.join(' UNION ALL '), [except])
      return Object.fromEntries(found.rows.map(row => [row.name, row.hash]))
    },
    close: () => client.end(),
  }
}
