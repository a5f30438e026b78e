import { type Db, statement } from '../../db/db.ts'
import type { Sweep } from '../../engine/sweep.ts'
import { hours, minutes } from '../../lib/duration.ts'
import type { Deps } from '../base/deps.ts'
import { idempotencyLifeMs } from './idempotency.ts'
import { backoffMemoryMs } from './rules.ts'

const limit = 10_000
const captchas = statement(
  'auth.sweepCaptchas',
  `DELETE FROM captcha WHERE id IN (SELECT id FROM captcha WHERE expires_at < $1 LIMIT ${limit})`,
)
// Used refresh tokens are retained until they expire: if one is presented again, it was probably stolen.
const refreshTokens = statement(
  'auth.sweepRefreshTokens',
  `DELETE FROM refresh_token WHERE hash IN (SELECT hash FROM refresh_token WHERE expires_at < $1 LIMIT ${limit})`,
)
// Sessions are deleted long after their creation, when they have no refresh token left and their last JWT has expired.
const sessions = statement(
  'auth.sweepSessions',
  `DELETE FROM session WHERE id IN (SELECT s.id FROM session s WHERE s.created_at < $1
     AND NOT EXISTS (SELECT 1 FROM refresh_token t WHERE t.session_id = s.id) LIMIT ${limit})`,
)
const backoffs = statement(
  'auth.sweepBackoff',
  `DELETE FROM login_backoff WHERE key IN (SELECT key FROM login_backoff WHERE updated_at < $1 LIMIT ${limit})`,
)
const idempotencyKeys = statement(
  'auth.sweepIdempotency',
  `DELETE FROM idempotency_key k USING (SELECT account_id, key FROM idempotency_key WHERE created_at < $1 LIMIT ${limit}) old
   WHERE (k.account_id, k.key) = (old.account_id, old.key)`,
)
const links = statement(
  'auth.sweepLinks',
  `DELETE FROM email_link WHERE (account_id, purpose) IN
     (SELECT account_id, purpose FROM email_link WHERE expires_at < $1 LIMIT ${limit})`,
)
const invitations = statement('auth.sweepInvitations', `DELETE FROM project_invitation WHERE expires_at < $1`)

/**
 * Retention of sessions: a sign-in from an IP address that the account has used within this time causes no
 * notification.
 */
const sessionMemoryMs = hours(24 * 90)

export const expiredCredentials = ({ db, config }: Pick<Deps, 'db' | 'config'>): Sweep => ({
  name: 'expired-credentials',
  everyMs: minutes(5),
  async run({ now }) {
    const ago = (ms: number) => [new Date(now.getTime() - ms)]
    const jwtLifeMs = config.accessTokenTtlSeconds * 1000
    return {
      captchas: await removeAll(db, captchas, ago(0)),
      refreshTokens: await removeAll(db, refreshTokens, ago(0)),
      sessions: await removeAll(db, sessions, ago(Math.max(sessionMemoryMs, jwtLifeMs))),
      links: await removeAll(db, links, ago(0)),
      backoffs: await removeAll(db, backoffs, ago(backoffMemoryMs)),
      idempotencyKeys: await removeAll(db, idempotencyKeys, ago(idempotencyLifeMs)),
      invitations: await db.run(invitations, ago(0)),
    }
  },
})

/** Deletes rows in bounded batches, so that no statement holds many locks. */
async function removeAll(db: Db, remove: Parameters<Db['run']>[0], params: readonly Date[]): Promise<number> {
  let total = 0
  for (;;) {
    const count = await db.run(remove, params)
    total += count
    if (count < limit) return total
  }
}
