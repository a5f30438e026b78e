/** Statements for members and invitations. */
import { type Sql, type Tx, statement } from '../../db/db.ts'
import type { MemberRole } from '../http/operation.ts'

export interface Member {
  readonly accountId: string
  readonly email: string
  readonly firstName: string | null
  readonly lastName: string | null
  readonly role: MemberRole
  readonly since: Date
}

export interface Invitation {
  readonly id: string
  readonly projectId: string
  readonly projectSlug: string
  readonly projectName: string
  readonly email: string
  readonly role: 'admin' | 'member' | 'viewer'
  readonly createdAt: Date
  readonly expiresAt: Date
}

const memberColumns = `a.id AS "accountId", a.email, a.first_name AS "firstName", a.last_name AS "lastName", m.role, m.created_at AS since`
const invitationColumns = `i.id, i.project_id AS "projectId", p.slug AS "projectSlug", p.name AS "projectName", i.email, i.role,
  i.created_at AS "createdAt", i.expires_at AS "expiresAt"`

const listMembers = statement<Member>(
  'projects.members',
  `SELECT ${memberColumns} FROM project_member m JOIN account a ON a.id = m.account_id
   WHERE m.project_id = $1 ORDER BY m.created_at, a.id`,
)
const changeRole = statement(
  'projects.setRole',
  `UPDATE project_member SET role = $3 WHERE project_id = $1 AND account_id = $2`,
)
const removeMember = statement(
  'projects.removeMember',
  `DELETE FROM project_member WHERE project_id = $1 AND account_id = $2`,
)
const lockMemberships = statement<{ projectId: string; role: MemberRole }>(
  'projects.lockMemberships',
  `SELECT p.id AS "projectId", m.role FROM project_member m JOIN project p ON p.id = m.project_id
   WHERE m.account_id = $1 AND p.want = 'live' ORDER BY p.id FOR NO KEY UPDATE OF p`,
)

const invitations = statement<Invitation>(
  'projects.invitations',
  `SELECT ${invitationColumns} FROM project_invitation i JOIN project p ON p.id = i.project_id
   WHERE i.project_id = $1 AND i.expires_at > $2 ORDER BY i.id`,
)
const invitationsTo = statement<Invitation>(
  'projects.invitationsTo',
  `SELECT ${invitationColumns} FROM project_invitation i JOIN project p ON p.id = i.project_id AND p.want = 'live'
     JOIN account a ON a.email = i.email AND a.email_verified_at IS NOT NULL
   WHERE i.email = $1 AND i.expires_at > $2 ORDER BY i.id`,
)
const putInvitation = statement<{ id: string }>(
  'projects.putInvitation',
  `INSERT INTO project_invitation (id, project_id, email, role, invited_by, expires_at, secret_hash)
   VALUES ($1, $2, $3, $4, $5, $6, $7)
   ON CONFLICT (project_id, email) DO UPDATE SET role = $4, invited_by = $5, expires_at = $6, secret_hash = $7 RETURNING id`,
)
/**
 * SQL condition for a caller who may accept an open invitation: with the secret of its link, or with an account that
 * has verified the invited address.
 */
const mayTake = `i.id = $1 AND i.expires_at > $3 AND (i.secret_hash = $4 OR EXISTS (SELECT FROM account a
  WHERE a.id = $2 AND a.email = i.email AND a.email_verified_at IS NOT NULL))`
const openInvitation = statement<{ projectId: string }>(
  'projects.openInvitation',
  `SELECT i.project_id AS "projectId" FROM project_invitation i JOIN project p ON p.id = i.project_id AND p.want = 'live'
   WHERE ${mayTake}`,
)
const takeInvitation = statement<{ projectId: string; role: 'admin' | 'member' | 'viewer' }>(
  'projects.takeInvitation',
  `DELETE FROM project_invitation i WHERE ${mayTake} RETURNING i.project_id AS "projectId", i.role`,
)
const withdrawInvitation = statement<{ email: string }>(
  'projects.withdrawInvitation',
  `DELETE FROM project_invitation WHERE id = $1 AND project_id = $2 RETURNING email`,
)
const verifiedAccount = statement<{ id: string }>(
  'projects.verifiedAccount',
  `SELECT id FROM account WHERE email = $1 AND email_verified_at IS NOT NULL`,
)
// Announces a change of the account's memberships on the channel for revoked credentials, so that open streams of the
// account check its access again.
const announce = statement('projects.announceChange', `SELECT pg_notify('account_revoked', $1)`)

export const announceChange = (tx: Tx, accountId: string) => tx.atCommit(announce, [accountId])
export const membersOf = (sql: Sql, projectId: string) => sql.rows(listMembers, [projectId])
export const setRole = async (tx: Tx, projectId: string, accountId: string, role: MemberRole) =>
  (await tx.run(changeRole, [projectId, accountId, role])) === 1
export const dropMember = async (tx: Tx, projectId: string, accountId: string) =>
  (await tx.run(removeMember, [projectId, accountId])) === 1
/** Returns the account's memberships in projects that are not deleted, locked until the transaction ends. */
export const lockedMemberships = (tx: Tx, accountId: string) => tx.rows(lockMemberships, [accountId])

export const invitationsOf = (sql: Sql, projectId: string, now: Date) => sql.rows(invitations, [projectId, now])
export const invitationsFor = (sql: Sql, email: string, now: Date) => sql.rows(invitationsTo, [email, now])

export interface NewInvitation {
  readonly id: string
  readonly projectId: string
  readonly email: string
  readonly role: 'admin' | 'member' | 'viewer'
  readonly invitedBy: string
  readonly expiresAt: Date
  readonly secretHash: Buffer
}
/** Inserts an invitation, or renews the project's open invitation for the same address, and returns its id. */
export const invite = async (tx: Tx, i: NewInvitation) =>
  (await tx.one(putInvitation, [i.id, i.projectId, i.email, i.role, i.invitedBy, i.expiresAt, i.secretHash])).id
/**
 * What entitles a caller to accept an invitation: the secret of its link, or an account that has verified the invited
 * address.
 */
export interface Invited {
  readonly accountId: string
  readonly secretHash: Buffer | null
}
export const invitationFor = (sql: Sql, id: string, who: Invited, now: Date) =>
  sql.maybe(openInvitation, [id, who.accountId, now, who.secretHash])
export const acceptInvitation = (tx: Tx, id: string, who: Invited, now: Date) =>
  tx.maybe(takeInvitation, [id, who.accountId, now, who.secretHash])
export const cancelInvitation = (tx: Tx, id: string, projectId: string) => tx.maybe(withdrawInvitation, [id, projectId])
export const verifiedAccountId = async (sql: Sql, email: string) => (await sql.maybe(verifiedAccount, [email]))?.id
