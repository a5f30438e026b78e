/** The owner's password: made here, known to servers by what verifies it. */
import { randomBytes } from 'node:crypto'
import type { Tx } from '../../db/db.ts'
import { poke } from '../../engine/runner.ts'
import type { Write } from '../../engine/workflow.ts'
import type { DatabaseDeps } from './deps.ts'
import * as passwords from './password-store.ts'
import { runInside } from './probe.ts'
import { scramVerifier } from './scram.ts'
import type { Branch, Database } from './store.ts'
import * as store from './store.ts'

/** Sealed. Letters and digits: it is pasted into shells and URLs. */
export const newPassword = ({ vault }: Pick<DatabaseDeps, 'vault'>): Buffer =>
  vault.seal('database.password', randomBytes(24).toString('hex'))

/** From the commit on the database has another password; its branches learn it as soon as they run. */
export async function rotatePassword(
  deps: Pick<DatabaseDeps, 'vault'>,
  tx: Tx,
  database: Pick<Database, 'id' | 'backend'>,
): Promise<void> {
  // The compute of a page server is the operator's image: it is told by its environment.
  await passwords.rotatePassword(tx, database.id, newPassword(deps), database.backend === 'neon')
  await store.tryAgain(tx, database.id)
  for (const id of await store.branchIdsOf(tx, database.id)) await poke(tx, 'database', id)
}

/**
 * Tells the running server: whoever signed in with the one before is disconnected. Undefined: not now, try again.
 * @throws BusError when its host does not answer
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
  if (ran) deps.log.warn({ branchId: b.id, error: ran.stderr.slice(-200) }, 'the new password could not be set')
  return undefined
}
