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
 * Returns a new password, encrypted. It contains only letters and digits, because users paste it into shells and URLs.
 */
export const newPassword = ({ vault }: Pick<DatabaseDeps, 'vault'>): Buffer =>
  vault.seal('database.password', randomBytes(24).toString('hex'))

/** Sets a new password; the branches get it as soon as they run. */
export async function rotatePassword(
  deps: Pick<DatabaseDeps, 'vault'>,
  tx: Tx,
  database: Pick<Database, 'id' | 'backend'>,
): Promise<void> {
  // The compute image of a page server is the operator's own, and gets the verifier only through its environment at a
  // start.
  await passwords.rotatePassword(tx, database.id, newPassword(deps), database.backend === 'neon')
  await branchStore.tryAgain(tx, database.id)
  for (const id of await store.branchIdsOf(tx, database.id)) await poke(tx, 'database', id)
}

/**
 * Sets the password on the running server, which disconnects clients that used the old one. Returns undefined if that
 * failed; try again later.
 * @throws BusError when its host does not respond
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
