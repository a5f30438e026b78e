import type { Db } from '../../db/db.ts'

/** The part of the frame's stream registry that is needed here. */
interface Streams {
  endWhere(matches: (owner: { readonly userId?: string }) => boolean, reason: string): void
}

/**
 * Ends the open event streams of an account within milliseconds of the commit that revoked a credential of it or took
 * it out of a project. All of its streams end, since clients connect again by themselves and only those whose
 * credential still stands get in. What is missed while the connection to the database is down is found by the check
 * that every stream makes with its heartbeat.
 */
export function endRevokedStreams(db: Db, streams: Streams): Promise<{ stop(): Promise<void> }> {
  return db.listen('account_revoked', accountId => {
    if (accountId !== '') streams.endWhere(owner => owner.userId === accountId, 'credentials changed')
  })
}
