/**
 * Checks that the configured secret belongs to the database. With another secret, a control plane would start, but
 * could neither decrypt stored secrets nor recognize tokens.
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

/** Reads up to five encrypted values of each kind. */
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
 * Records the fingerprint of the secret at the first start and compares it at each later one.
 * @throws Error if another secret is configured
 */
export async function checkInstallationSecret(db: Db, vault: Vault): Promise<void> {
  // The vault hashes with the oldest secret, so the fingerprint stays the same when secrets are rotated.
  const fingerprint = vault.hash('installation', 'mote')
  let [recorded] = await db.rows(read)
  // The database comes from a release that recorded no fingerprint, so the secret is checked with stored values.
  if (recorded === undefined && !(await opensSome(db, vault))) throw otherSecret()
  if (!recorded?.fingerprint) {
    await db.run(record, [fingerprint])
    recorded = await db.one(read) // another control plane may have recorded its fingerprint first
  }
  if (!recorded.fingerprint?.equals(fingerprint)) throw otherSecret()
}

/**
 * Returns whether the vault can decrypt at least one sample; true if there is none. Other rows may still be encrypted
 * with an earlier secret.
 */
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
    'the configured secret does not belong to this database. Set the original secret (MOTE_SECRET_KEY, or secret.key in the data directory of mote up); during a rotation keep it as the last of MOTE_SECRET_KEYS',
  )
