/** The password of a database's owner. Servers get only its SCRAM verifier. */
import { randomBytes } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Write } from '../../engine/workflow.ts'
import type { DatabaseDeps } from './deps.ts'
import * as passwords from './password-store.ts'
import { runInside } from './probe.ts'
import { scramVerifier } from './scram.ts'
import type { Branch, Database } from './store.ts'
import * as branchStore from './branch-store.ts'
import * as store from './store.ts'

/**
 * Returns a new password, encrypted. The password has only letters and digits, because users paste it into shells and
 * URLs.
 */
export const newPassword = ({ vault }: Pick<DatabaseDeps, 'vault'>): Buffer =>
  vault.seal('database.password', randomBytes(24).toString('hex'))

/** Sets a new password for the owner of the database. Running servers get it right away, others when they start. */
export async function rotatePassword(
  deps: Pick<DatabaseDeps, 'vault'>,
  tx: Tx,
  database: Pick<Database, 'id' | 'backend'>,
): Promise<void> {
  // The VMs of a database on a page server must restart: their image belongs to the operator, and gets the verifier
  // only through its environment.
  await passwords.rotatePassword(tx, database.id, newPassword(deps), database.backend === 'neon')
  await branchStore.tryAgain(tx, database.id)
  for (const id of await store.branchIdsOf(tx, database.id)) await poke(tx, 'database', id)
}

/**
 * Sets the password on the branch's running server, which disconnects clients that used the old one. Returns undefined
 * if that failed; the caller then tries again later.
 * @throws BusError when the server's host does not respond
 */
export async function reportPassword(deps: DatabaseDeps, b: Branch, signal: AbortSignal): Promise<Write | undefined> {
  const { passwordRevision } = b.database
  const verifier = await scramVerifier(deps.vault.open('database.password', b.password))
  const ran = await runInside(
    deps,
    b,
    ['/usr/local/bin/mote-password', String(passwordRevision), verifier, 'now'],
    signal,
  )
  if (ran?.exitCode === 0) return tx => passwords.knowsPassword(tx, b.id, passwordRevision).then(() => undefined)
  if (ran) deps.log.warn({ branchId: b.id, error: ran.stderr.slice(-200) }, 'could not set the new password')
  return undefined
}
