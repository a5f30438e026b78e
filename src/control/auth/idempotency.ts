/**
 * Stores responses for 24 hours by (user, Idempotency-Key). The request's transaction inserts the row first: a second
 * request with the same key blocks on that row and then reads either the response (commit) or nothing (rollback).
 */
import { type Tx, statement } from '../../db/db.ts'
import { hours } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import type { IdempotencyStore } from '../http/ports.ts'

export const idempotencyLifeMs = hours(24)

// Also replaces an expired key that the sweep has not deleted yet.
const claimKey = statement<{ key: string }>(
  'idempotency.claim',
  `INSERT INTO idempotency_key AS k (account_id, key, fingerprint, created_at) VALUES ($1, $2, $3, $4)
   ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = $3, created_at = $4, status = NULL, answer = NULL
     WHERE k.created_at < $5
   RETURNING key`,
)
const readKey = statement<{ fingerprint: Buffer; status: number | null; answer: Buffer | null }>(
  'idempotency.read',
  `SELECT fingerprint, status, answer FROM idempotency_key WHERE account_id = $1 AND key = $2`,
)
const storeAnswer = statement(
  'idempotency.store',
  `UPDATE idempotency_key SET status = $3, answer = $4 WHERE account_id = $1 AND key = $2`,
)

export const answerPurpose = 'idempotency-answer'
const fingerprintPurpose = 'idempotency-fingerprint'

/**
 * Implements the HTTP layer's interface for idempotency keys. The fingerprint of a request covers its body, which may
 * contain a password, so only a keyed hash of the fingerprint is stored.
 */
export function createIdempotencyStore({ vault, clock }: Pick<Deps, 'vault' | 'clock'>): IdempotencyStore {
  return {
    async claim(tx: Tx, { userId, key, fingerprint }) {
      const now = clock.now()
      const hashed = vault.hash(fingerprintPurpose, fingerprint)
      const expiredBefore = new Date(now.getTime() - idempotencyLifeMs)
      if (await tx.maybe(claimKey, [userId, key, hashed, now, expiredBefore])) return undefined
      const stored = await tx.one(readKey, [userId, key])
      if (stored.status === null || stored.answer === null) throw new Error('BUG: an idempotency key without an answer')
      return {
        fingerprint: stored.fingerprint.equals(hashed) ? fingerprint : 'of another request',
        status: stored.status,
        body: vault.open(answerPurpose, stored.answer),
      }
    },
    complete(tx, { userId, key }, status, body) {
      tx.atCommit(storeAnswer, [userId, key, status, vault.seal(answerPurpose, body)])
    },
  }
}
