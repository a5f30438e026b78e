import type { Db } from '../../db/db.ts'

/** The function of the server's stream registry that this file uses. */
interface Streams {
  endWhere(matches: (owner: { readonly userId?: string }) => boolean, reason: string): void
}

/**
 * Ends the open event streams of an account within milliseconds after the commit that revoked one of its credentials or
 * memberships. All of its streams are ended: clients reconnect by themselves, and only those with a valid credential
 * succeed. If the connection to the database is down, the check at each stream's heartbeat covers missed notifications.
 */
export function endRevokedStreams(db: Db, streams: Streams): Promise<{ stop(): Promise<void> }> {
  return db.listen('account_revoked', accountId => {
    if (accountId !== '') streams.endWhere(owner => owner.userId === accountId, 'credentials changed')
  })
}
