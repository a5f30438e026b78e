/**
 * Whether the configured secret is that of the data. With another one a control plane would start and work, but open nothing that
 * was sealed, and know no token.
 */
import { type Db, statement } from '../../db/db.ts'
import type { Vault } from '../../lib/vault.ts'
import { sealedColumns } from './sealed.ts'

const read = statement<{ fingerprint: Buffer | null }>(
  'installation_secret.read',
  'SELECT fingerprint FROM installation_secret',
)

const record = statement(
  'installation_secret.record',
  `INSERT INTO installation_secret (fingerprint) VALUES ($1)
   ON CONFLICT (singleton) DO UPDATE SET fingerprint = excluded.fingerprint WHERE installation_secret.fingerprint IS NULL`,
)

/** Some of what is sealed, whatever it is. */
const samples = statement<{ purpose: string; box: Buffer }>(
  'installation_secret.samples',
  sealedColumns
    .map(
      ({ table, column, purpose }) =>
        `(SELECT '${purpose}' AS purpose, ${column} AS box FROM ${table} WHERE ${column} IS NOT NULL LIMIT 5)`,
    )
    .join(' UNION ALL '),
)

/**
 * Records which secret the data belong to at the first start, and compares it at each later one.
 * @throws Error when another secret is configured
 */
export async function checkInstallationSecret(db: Db, vault: Vault): Promise<void> {
  // Hashes stay on the oldest secret, so the fingerprint survives a rotation.
  const fingerprint = vault.hash('installation', 'mote')
  let [recorded] = await db.rows(read)
  // Data of a release that recorded nothing.
  if (recorded === undefined && !(await opensSome(db, vault))) throw otherSecret()
  if (!recorded?.fingerprint) {
    await db.run(record, [fingerprint])
    recorded = await db.one(read) // another control plane may have been first
  }
  if (!recorded.fingerprint?.equals(fingerprint)) throw otherSecret()
}

/** True also where nothing is sealed. Rows that an earlier secret sealed and nobody sealed anew do not count against it. */
async function opensSome(db: Db, vault: Vault): Promise<boolean> {
  const sealed = await db.rows(samples)
  return sealed.length === 0 || sealed.some(({ purpose, box }) => opens(vault, purpose, box))
}

function opens(vault: Vault, purpose: string, box: Buffer): boolean {
  try {
    vault.open(purpose, box)
    return true
  } catch {
    return false
  }
}

const otherSecret = () =>
  new Error(
    'the secret is not the one that this database was made with: set that one again (MOTE_SECRET_KEY, or secret.key in the data directory of mote up), and while rotating keep it as the last of MOTE_SECRET_KEYS',
  )
