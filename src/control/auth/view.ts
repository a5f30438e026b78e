import type { PatRow } from './pat-store.ts'
import type { PersonalAccessToken, Session, User } from './resources.ts'
import { expandScopes } from './rules.ts'
import type { SessionRow } from './session-store.ts'
import type { AccountRow } from './store.ts'

export const viewUser = (a: AccountRow): User => ({
  id: a.id,
  email: a.email,
  first_name: a.firstName,
  last_name: a.lastName,
  avatar_url: a.avatarUrl,
  email_notifications: a.emailNotifications,
  marketing_emails: a.marketingEmails,
  role: a.role,
  email_verified: a.emailVerified,
  totp_enabled: a.totpEnabled,
  vpc_ipv6_prefix: a.ipv6Prefix,
})

export const viewToken = (t: PatRow): PersonalAccessToken => ({
  id: t.id,
  user_id: t.accountId,
  name: t.name,
  token_last_four: t.lastFour,
  created_at: t.createdAt.toISOString(),
  last_used_at: t.lastUsedAt?.toISOString() ?? null,
  scopes: [...expandScopes(t.scopes)],
  project: t.project,
  expires_at: t.expiresAt?.toISOString() ?? null,
})

export const viewSession = (s: SessionRow, currentId: string | undefined): Session => ({
  id: s.id,
  ip_address: s.ipAddress,
  user_agent: s.userAgent,
  created_at: s.createdAt.toISOString(),
  current: s.id === currentId,
})
